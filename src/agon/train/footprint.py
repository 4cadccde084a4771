"""What a run holds in memory and writes to the disk, estimated from its settings and its base's configuration.

Formulas and how far off they were where measured: docs/memory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from agon.config import AdapterSettings, Settings
from agon.learner.blocks import PLAIN_LENGTH
from agon.learner.runner import FEWEST_TOKENS, LOGIT_BYTES, LOGPROB_CHUNK, MOST_TOKENS
from agon.methods.registry import method_named
from agon.model.lora import merged_bytes
from agon.rollout.cache import SPARE_SLOTS
from agon.rollout.vllm_options import cache_bytes_per_token
from agon.train.state import stored_bytes

# Python with torch, transformers and agon, before a model is there; on a GPU, CUDA's own part as well.
_PROCESS_BYTES = {"cpu": 450 << 20, "cuda": 3 << 30}
# A completion's token in the lists of a step: id, logprob, and both again where samples are made of them.
_TOKEN_BYTES = 130
# A saved match: gzip of ids, logprobs and text takes this a token, and this a completion besides.
_MATCH_TOKEN_BYTES, _MATCH_BYTES = 12, 40
_LINE_BYTES = 3000
_MOST_TOKENS = {"cpu": FEWEST_TOKENS, "cuda": MOST_TOKENS}
# The torch engine's cache grows by a quarter at a time.
_CACHE_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class BaseShape:
    """What memory depends on of a base. `num_adapted` counts the weights under an adapter, whose own are `num_adapter`."""

    num_parameters: int
    num_adapted: int
    num_adapter: int
    num_tensors: int
    layers: int
    hidden: int
    inner: int
    heads: int
    query_width: int
    kv_width: int
    vocabulary: int
    context_length: int
    has_query_norm: bool
    numbers_per_cached_token: int


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes on the device that computes, by what they are for; `host` is main memory where that is another.

    Sampling and learning take turns, so that of `cache` and `microbatch` the larger counts; vLLM holds its cache all the time.
    """

    base: int
    engine: int
    adapters: int
    cache: int
    microbatch: int
    host: int
    keeps_cache: bool

    @property
    def least(self) -> int:
        """What no setting of sampling or learning can bring down: base, adapters and optimisers."""
        return self.base + self.adapters

    @property
    def peak(self) -> int:
        """The most that is held at once."""
        phases = self.cache + self.microbatch if self.keeps_cache else max(self.cache, self.microbatch)
        return self.least + self.engine + phases


@dataclass(frozen=True, slots=True)
class DiskNeed:
    """Bytes that a run writes. Matches are an upper limit: every completion as long as its cap."""

    checkpoints: int
    matches: int
    lines: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.checkpoints + self.matches + self.lines


def shape_of(model: Any, config: Any, adapter: AdapterSettings) -> BaseShape:
    """Read a base's shape from its configuration and a model of it that may be without weights."""
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    targets, rank = adapter.targets, adapter.rank
    adapted = [
        module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and module is not head
        and (targets == "all-linear" or name.rpartition(".")[2] in targets)
    ]
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    experts = getattr(config, "num_experts_per_tok", None) or 1
    inner = getattr(config, "moe_intermediate_size", None) or getattr(
        config, "intermediate_size", 4 * config.hidden_size
    )
    return BaseShape(
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        num_adapted=sum(module.weight.numel() for module in adapted),
        num_adapter=sum(rank * (module.in_features + module.out_features) for module in adapted),
        num_tensors=2 * len(adapted),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        inner=inner * experts,
        heads=config.num_attention_heads,
        query_width=config.num_attention_heads * width,
        kv_width=config.num_key_value_heads * width,
        vocabulary=config.vocab_size,
        context_length=getattr(config, "max_position_embeddings", None) or 1 << 30,
        has_query_norm=any(name.endswith("q_norm") for name, _ in model.named_modules()),
        numbers_per_cached_token=cache_bytes_per_token(config, 1),
    )


def estimate_memory(shape: BaseShape, settings: Settings, *, device: str, width: int, engine: str) -> MemoryNeed:
    """Estimate a run's memory on a `device` ("cpu" or "cuda") with numbers of `width` bytes, sampled by `engine`."""
    own, rollout = settings.train, settings.rollout
    adapter = 4 * shape.num_adapter
    rows = min(rollout.max_rows, own.problems_per_step * 2 * own.group_size)
    slots = longest_row(shape, settings)
    if engine == "torch":
        copies, grown = merged_bytes(width * shape.num_adapted, is_float32=width == 4), _CACHE_GROWTH
        slots += SPARE_SLOTS
    else:
        # Swapped adapters hold the adapted weights twice; side by side they take less.
        copies, grown = width * shape.num_adapted, 1.0
    base = width * shape.num_parameters
    step_tokens = own.problems_per_step * own.group_size * 2 * longest_row(shape, settings)
    is_gpu = device == "cuda"
    process = _PROCESS_BYTES[device] + _TOKEN_BYTES * step_tokens
    return MemoryNeed(
        base=base,
        engine=copies,
        # Both with two moments; a gradient and the optimiser's own scratch for the one that steps.
        adapters=adapter * (2 * 3 + 2 + count_frozen(settings)),
        cache=int(grown * rows * slots * shape.numbers_per_cached_token * width),
        microbatch=microbatch_bytes(shape, settings, device=device, width=width),
        host=process + (base if is_gpu else 0),
        keeps_cache=engine == "vllm",
    )


def microbatch_bytes(shape: BaseShape, settings: Settings, *, device: str, width: int) -> int:
    """Return what a micro-batch leaves for its backward pass, and the logits of a chunk of its tokens."""
    own, longest = settings.train, longest_row(shape, settings)
    # A micro-batch holds no more than a stream does, and one completion at least.
    stream = own.problems_per_step * own.group_size * longest
    tokens = min(max(own.tokens_per_microbatch or _MOST_TOKENS[device], longest), stream)
    chunk = min(own.logprob_chunk or LOGPROB_CHUNK[device], tokens)
    layer = numbers_per_token(shape, longest=longest, is_float32=width == 4, keeps_scores=device == "cpu")
    # Recomputed, each layer leaves its input, and one at a time all that it computes.
    kept = shape.layers * shape.hidden + layer if own.gradient_checkpointing is True else shape.layers * layer
    return tokens * (kept + 2 * shape.hidden) * width + chunk * shape.vocabulary * LOGIT_BYTES[False]


def numbers_per_token(shape: BaseShape, *, longest: int, is_float32: bool, keeps_scores: bool) -> int:
    """Count the numbers that a decoder layer leaves for its backward pass for each token, as transformers computes it.

    The two norms leave their input (in float32, which is as two) and their output, the feed-forward part four vectors, attention
    queries, keys, values and its output (with short rows their probabilities for one of them), and norms of queries and keys their inputs.
    """
    norms = (4 if is_float32 else 6) * shape.hidden
    scores = shape.heads * longest if keeps_scores and longest <= PLAIN_LENGTH else 0
    attention = (2 if scores else 3) * shape.query_width + 2 * shape.kv_width
    if shape.has_query_norm:
        attention += (1 if is_float32 else 2) * (shape.query_width + shape.kv_width)
    return norms + attention + scores + 4 * shape.inner


def estimate_disk(shape: BaseShape, settings: Settings, *, rollouts: int, tokens: int) -> DiskNeed:
    """Estimate what a run writes. `rollouts` and `tokens` are those of the whole run."""
    own = settings.train
    one = stored_bytes(
        shape.num_adapter,
        num_tensors=shape.num_tensors,
        num_frozen=count_frozen(settings),
        num_learning=1 + method_named(own.method).has_pair,
    )
    saves = -(-own.steps // own.save_every)
    # A new one is written before the oldest goes.
    kept = min(saves, own.keep_checkpoints + 1)
    steps = min(own.steps, -(-own.steps // own.save_matches_every) + 1)
    # Prompts are seldom as long as they may be, and never longer than what the context leaves them.
    room = shape.context_length - min(settings.rollout.max_draft_tokens, settings.rollout.max_challenge_tokens)
    prompts = rollouts * min(settings.task.max_prompt_tokens, max(room, 1)) // 4
    matches = (_MATCH_TOKEN_BYTES * tokens + 3 * prompts + _MATCH_BYTES * rollouts) * steps // own.steps
    return DiskNeed(
        checkpoints=kept * one,
        matches=min(matches, int(own.max_matches_gb * 1e9)),
        lines=_LINE_BYTES * own.steps,
    )


def count_frozen(settings: Settings) -> int:
    """Count the frozen copies that a method will ever make."""
    method = method_named(settings.train.method)
    return len({frozen.name for step in range(settings.train.steps) for frozen in method.snapshots(step)})


def longest_row(shape: BaseShape, settings: Settings) -> int:
    """Return the tokens of the longest prompt with its completion."""
    own = settings.rollout
    row = settings.task.max_prompt_tokens + max(own.max_draft_tokens, own.max_summary_tokens + own.max_challenge_tokens)
    return min(row, shape.context_length)
