"""The tables of a recipe, one class each: every setting with its meaning, unit and default."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agon.records import AnswerStyle, PlainWording, Withholding

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0.0)]


class Table(BaseModel):
    """Settings that are frozen, refuse unknown keys, and take no value of another type."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, strict=True
    )


class ModelSettings(Table):
    """The frozen base."""

    base: str = "quickstart"
    """A local model folder, a Hub name, or `quickstart` for the embedded base."""
    revision: str | None = None
    """Commit or tag of a Hub model."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of the base; `auto` is float32 on a CPU and bfloat16 on a GPU. Adapters are kept in float32 always."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where the model lives."""
    trust_remote_code: bool = False
    """Whether a model folder may run its own Python code."""
    enable_thinking: bool | None = None
    """The thinking switch of chat templates that have one (Qwen3); None leaves it to the template."""


class AdapterSettings(Table):
    """The two LoRA adapters."""

    rank: Positive = 16
    """LoRA rank."""
    alpha: Annotated[float, Field(gt=0.0)] = 32.0
    """LoRA alpha: the update is scaled by alpha / rank. (A guess: the paper does not say.)"""
    dropout: Share = 0.0
    """LoRA dropout."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Names of the linear layers that get an update."""
    init: Literal["standard", "noise", "orthogonal"] = "noise"
    """How B starts: `standard` (its own random LoRA A-matrix, zero B-matrix), `noise` (as the paper: Gaussian noise in the zero
    matrix, scaled to `noise_kl`), `orthogonal` (both adapters orthogonal LoRA, zero update). A always has zero update."""
    noise_kl: Annotated[float, Field(gt=0.0)] = 1e-3
    """Mean token KL between B and the base that the noise is scaled to, nats. (A guess: the paper gives no sigma.)"""


class TaskSettings(Table):
    """Where problems come from, how answers look, how they are split."""

    name: str = "countdown-lite"
    """A named task, `custom`, a family of reasoning-gym, or `module:NAME`: a function of yours that gives the rows (docs/own-task.md)."""
    path: str | None = None
    """A local JSONL, Parquet or CSV file of the named task's shape, or of any shape with `name = "custom"`."""
    test_path: str | None = None
    """A second file whose problems are the test split; `path` is then split into train and dev only."""
    hub: str | None = None
    """A Hub data set, with `name = "custom"`."""
    hub_config: str | None = None
    """Configuration of the Hub data set."""
    hub_split: str = "train"
    """Split of the Hub data set."""
    question_field: str | None = None
    """Column that holds the question; None takes the task's own."""
    answer_field: str | None = None
    """Column that holds the answer; None takes the task's own."""
    verifier: str = "auto"
    """Program that checks answers: `expression`, `numeric`, `exact`, `math`, `code`, or `module:NAME`, a function of yours
    (docs/own-verifier.md); `auto` takes the task's own (`math` for custom data)."""
    answer_style: AnswerStyle = "tags"
    """How a final answer is marked: `tags` (<think>…</think> summary <answer>…</answer>), `boxed` (\\boxed{…}), or `code` (a program
    in a fenced block), which goes with tasks that are checked by running programs."""
    wording: Literal[PlainWording, "symbols-v1"] = "plain-v1"
    """Versioned wording of the draft and the challenge prompt; `plain-v2` shows a challenger the rival first and asks for its own solution
    last; `plain-v3` shows the rival, then the draft's own prompt; `symbols-v1` is the embedded base's own."""
    withholding: Withholding = "mark"
    """How a draft's final answer is kept from its challenger: `mark` puts `[withheld]` in its place, `drop` leaves out every sentence that
    shows it. A small base may copy the mark into its own answer."""
    difficulty_min: float | None = None
    """Lowest level kept, where rows have one."""
    difficulty_max: float | None = None
    """Highest level kept, where rows have one."""
    drop_yes_no: bool = True
    """Whether problems with a guessable answer (yes/no/true/false) are dropped."""
    dev_share: Share = 0.1
    """Share of the problems (by content hash) kept for choices made along the way."""
    test_share: Share = 0.1
    """Share of the problems kept for the final evaluation."""
    num_generated: Positive = 1000
    """Problems to generate, for a family of reasoning-gym or a task of your own."""
    generator_seed: Count = 0
    """Seed of the generated problems, for a family of reasoning-gym or a task of your own."""
    max_train: Positive | None = None
    """Use at most this many training problems."""
    max_prompt_tokens: Positive = 1024
    """Problems whose draft prompt is longer are dropped and listed."""


class RolloutSettings(Table):
    """Sampling during training."""

    engine: Literal["auto", "torch", "vllm"] = "auto"
    """Rollout engine; `auto` is vLLM where it is installed and the base is on a CUDA device and not tiny, else torch."""
    vllm_adapters: Literal["auto", "swapped", "multi-lora"] = "auto"
    """How vLLM serves the adapters: `swapped` writes one at a time into its weights (faster), `multi-lora` computes them side by side
    (one copy of the base); `auto` is swapped unless the second copy of the adapted weights takes over a tenth of the card."""
    engine_memory_share: Share = 0.35
    """Share of the free GPU memory that vLLM's key-value cache may take; it takes what `max_rows` full rows need if that is less."""
    max_adapter_lag: Count = 0
    """Optimiser steps by which the engine's adapter may be behind the learner's; beyond it the run stops."""
    parity_every: Count = 20
    """Steps between comparisons of engine and learner logprobs on a sample of the step's own completions; 0 compares at the start
    only."""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Sampling temperature; the learner divides logits by it as well."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Nucleus mass. Training refuses values below 1: engine and learner would disagree at every token."""
    max_draft_tokens: Positive = 1024
    """Cap on sampled tokens of a draft."""
    max_challenge_tokens: Positive = 1024
    """Cap on sampled tokens of a challenge."""
    max_summary_tokens: Positive = 512
    """Most tokens of a summary shown to the challenger; the front is cut."""
    max_rows: Positive = 256
    """Most sequences decoded at once."""


class RewardSettings(Table):
    """Weights of the reward terms."""

    correctness: Annotated[float, Field(ge=0.0)] = 2.0
    """Points for a right answer."""
    format: Annotated[float, Field(ge=0.0)] = 0.5
    """Points for a well-formed answer (lambda)."""
    conversion: Annotated[float, Field(ge=0.0)] = 1.0
    """Points for a challenger that is right where its rival's draft was wrong (method `agon` and its controls). The paper's ladder
    is 0, 1, 2, 3."""
    tie_break: Annotated[float, Field(ge=0.0)] = 0.5
    """Points for a right challenger that is shorter than its right rival (method `tie-break`). (A guess: the paper gives none.)"""
    max_right: Positive | None = None
    """Most right completions of a problem that are learned from (method `rft`); None takes N/2. (A guess.)"""
    length_target: Positive | None = None
    """Tokens a completion should take (methods `lcpo-exact` and `lcpo-max`, which need it). The wording `plain-v1` states it."""
    length_alpha: Annotated[float, Field(ge=0.0)] = 3e-4
    """Share of a right answer that a token off the target costs (lcpo; L1, arXiv:2503.04697: 3e-4, for targets of 100-4,000)."""
    length_weight: Annotated[float, Field(ge=0.0)] = 1.0
    """Points of the added length terms (methods `kimi`, a guess; `soft-overlong`, 1 as in DAPO, whose right and wrong are as far
    apart as 2 points)."""
    length_from_step: Count = 0
    """First step in which Kimi's length reward counts; the paper warms up without it, for how long it does not say."""
    overlong_share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """Last share of the cap in which completions are punished (method `soft-overlong`; DAPO: 4,096 of 20,480 tokens)."""
    shorter_beta: Annotated[float, Field(ge=0.0)] = 1e-3
    """Points a token of distance from the best length costs (method `shorter-better`). (A guess.)"""
    lead_alpha: Annotated[float, Field(ge=0.0)] = 0.05
    """How fast a right answer loses with its standardised length (method `grpo-lead`, arXiv:2504.09696: 0.05)."""


class TrainSettings(Table):
    """The training loop and the optimiser."""

    method: str = "agon"
    """Training method: one of docs/methods.md, or `module:NAME` (docs/own-method.md)."""
    seed: Count = 0
    """Seed of every random stream of the run."""
    order_seed: Count | None = None
    """Seed of the order of problems alone; None takes `seed`. With another one the same run goes over its problems in another order."""
    steps: Positive = 100
    """Optimiser steps (roles swap at each)."""
    problems_per_step: Positive = 16
    """Problems in a step."""
    group_size: Positive = 8
    """N: drafts per problem, and challenges per problem. Methods with one player sample 2N."""
    learning_rate: Annotated[float, Field(ge=0.0)] = 5e-5
    """Peak learning rate of AdamW."""
    schedule: Literal["linear", "constant"] = "linear"
    """Learning rate after the warm-up: down to zero, or constant."""
    warmup_share: Share = 0.1
    """Share of the steps over which the learning rate rises from zero."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled weight decay."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """Gradients are scaled down to this norm."""
    loss: Literal["dapo", "grpo", "dr_grpo", "gspo", "cispo"] = "dapo"
    """Policy-gradient loss (docs/methods.md)."""
    clip_low: Annotated[float, Field(ge=0.0)] | None = None
    """Lower clip range; None takes the loss's published value."""
    clip_high: Annotated[float, Field(ge=0.0)] | None = None
    """Upper clip range; None takes the loss's published value."""
    minibatches: Positive = 1
    """Optimiser steps per rollout batch; 1 is on-policy."""
    advantage: Literal["group_std", "group_mean", "batch_std", "stratified", "none"] = "group_std"
    """How rewards become advantages: centred by the group's mean and divided by its deviation (`group_std`), by nothing
    (`group_mean`) or by the batch's deviation (`batch_std`); `stratified` centres challenges apart by whether the draft they read
    was right; `none` takes the rewards as they are, and learns nothing from a reward of 0."""
    importance_cap: Annotated[float, Field(gt=0.0)] | None = 2.0
    """Upper limit of the token-level importance weight of learner over engine; None turns the correction off."""
    max_logprob_gap: Annotated[float, Field(gt=0.0)] = 0.1
    """Mean |learner - engine| logprob per token above which the run stops, nats."""
    mask_truncated: bool = False
    """Whether truncated completions are left out of the loss instead of counting as wrong."""
    tokens_per_microbatch: Positive | None = None
    """Token budget of a packed micro-batch, prompts included; None takes 8,192, or on a CUDA device as many as fit, up to 32,768."""
    logprob_chunk: Positive | None = None
    """Tokens whose logits are held at once; None takes 1,024, or 4,096 on a CUDA device."""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """Whether activations are recomputed in the backward pass; `auto` does it for micro-batches that would not fit otherwise
    (measured on a CUDA device; never elsewhere)."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether decoder layers are compiled for the update; `auto` does it on a CUDA device for bases of 100M parameters and more,
    and says so when a base cannot be. It took about 20 s at the start where it was measured (docs/benchmarks.md)."""
    attention: Literal["auto", "torch", "flash4"] = "auto"
    """Kernels for packed sequences on a CUDA device: torch's own (FlashAttention 2), or the FlashAttention 4 that vLLM carries
    (`flash4`; a Hopper, heads 64 to 128 wide). `auto` takes the latter where it is installed and agrees with plain attention at the start."""
    save_every: Positive = 20
    """Steps between checkpoints; the last step is always saved."""
    keep_checkpoints: Positive = 2
    """Newest checkpoints that are kept."""
    save_matches_every: Positive = 10
    """Steps between saved matches."""
    max_matches_gb: Annotated[float, Field(gt=0.0)] = 10.0
    """Most gigabytes (10^9 bytes, compressed) of matches that a run keeps. A step whose matches would take more leaves none, which is
    said once."""


class VerifierSettings(Table):
    """Limits of the programs that check answers."""

    timeout_s: Seconds = 5.0
    """Time one check may take, counted from when it starts."""
    memory_mb: Positive = 2048
    """Address space of a worker process."""
    workers: Positive = 2
    """Worker processes of each checker."""
    code_timeout_s: Seconds = 10.0
    """Time a program may run: on one test of a program that reads standard input, on all tests of a function. A problem's own
    limit counts where it is shorter. Time in which the program was ready but had no core to run on is not counted."""
    code_memory_mb: Positive = 2048
    """Address space of a program."""
    code_output_mb: Positive = 8
    """Most that a program may print."""
    unsafe_code_execution: bool = False
    """Whether programs written by the model may run where the system offers no isolation (see `agon doctor`)."""
    max_error_share: Share = 0.05
    """Share of checks that may fail by the checker's own fault before the run stops."""


class EvaluationSettings(Table):
    """How the trained pair is measured."""

    temperature: Annotated[float, Field(ge=0.0)] = 0.6
    """Sampling temperature; 0 is greedy."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.95
    """Nucleus mass."""
    samples: Positive = 1
    """Samples per problem."""
    max_test: Positive | None = None
    """Evaluate on at most this many test problems."""
    max_dev: Positive | None = None
    """Choose the direction on at most this many development problems."""
    problems_per_batch: Positive = 128
    """Problems played at once."""
    seed: Count = 1234
    """Seed of the evaluation's random streams."""


class TrackingSettings(Table):
    """Where curves go besides metrics.jsonl."""

    backend: Literal["none", "trackio", "wandb", "tensorboard"] = "none"
    """Tracker; each but `none` is an extra of its name."""
    project: str = "agon"
    """Name of the tracker's project."""
