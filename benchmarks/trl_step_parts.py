"""What `trl_step.py` measures, each side in a process of its own."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from trl_step import Workload, machine

from agon.config import Settings
from agon.learner.learner import Learner
from agon.match.session import Session, open_session
from agon.records import Completion, Problem, Prompt, Request, Summary, Verdict
from agon.rollout.engine import GrowingEngine
from agon.runs.folder import RunFolder
from agon.train.loop import pair_of, train
from agon.train.order import problems_of_step

START = time.perf_counter()
NUM_WARM = 1


class Stamps:
    """When each step ended, the device having done what it was told."""

    def __init__(self, side: str) -> None:
        self.side, self.times = side, list[float]()

    def add(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())
        if len(self.times) > 1:
            step, seconds = len(self.times) - 2, self.times[-1] - self.times[-2]
            print(f"{self.side}: step {step} took {seconds:.2f} s", file=sys.stderr, flush=True)

    def result(self, num_steps: int, parts: dict[str, list[float]], tokens: list[int]) -> dict[str, Any]:
        seconds = [after - before for before, after in itertools.pairwise(self.times)]
        counted = slice(NUM_WARM, NUM_WARM + num_steps)
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        return {
            "seconds": seconds[counted],
            "parts": {name: values[counted] for name, values in parts.items()},
            "tokens": tokens[counted],
            "start_s": self.times[0] - START,
            "warm_s": seconds[0],
            "peak_gib": peak / 2**30,
            "machine": machine(),
        }


def measure(side: str, work: Workload, options: argparse.Namespace) -> dict[str, Any]:
    # One more than is counted: our last step would save a checkpoint, and is not taken.
    num_steps = NUM_WARM + options.steps + (1 if side == "ours" else 0)
    settings = settings_of(work, options.model, num_steps, attention=options.attention)
    problems = [
        Problem(str(number), f"t{number % 9}", "", "made-up", "exact")
        for number in range(num_steps * work.num_problems)
    ]
    measured = ours if side == "ours" else theirs
    return measured(work, settings, problems, options)


def settings_of(work: Workload, folder: Path, num_steps: int, *, attention: str) -> Settings:
    return Settings.model_validate(
        {
            "model": {"base": str(folder)},
            "task": {"max_prompt_tokens": work.prompt},
            "rollout": {
                "max_draft_tokens": work.cap,
                "max_challenge_tokens": work.cap,
                "max_summary_tokens": work.challenge_prompt - work.prompt,
                "max_rows": work.num_rows,
            },
            "train": {
                "steps": num_steps,
                "problems_per_step": work.num_problems,
                "group_size": work.group_size,
                "attention": attention,
                "save_every": 10**6,
                "save_matches_every": 10**6,
            },
        }
    )


def by_twos(values: Sequence[float]) -> list[float]:
    """Add up drafts and challenges."""
    return [first + second for first, second in zip(values[::2], values[1::2], strict=True)]


# --- ours


class Counted(Exception):
    """Every step that counts has been taken."""


def ours(
    work: Workload, settings: Settings, problems: Sequence[Problem], options: argparse.Namespace
) -> dict[str, Any]:
    stamps, tokens = Stamps("ours"), list[int]()

    def stamp(step: int, row: dict[str, Any]) -> None:
        stamps.add()
        if step + 1 == NUM_WARM + options.steps:
            raise Counted

    with open_session(settings) as session, tempfile.TemporaryDirectory() as folder:
        session.prompts, session.verifiers = MadeUpPrompts(work), HalfRight()
        force_lengths(session, work, tokens)
        learner = Learner(pair_of(session), settings.train, temperature=1.0, max_completion_tokens=work.cap)
        with RunFolder.create(Path(folder) / "run", settings=settings.model_dump(mode="json")) as run:
            stamps.add()
            with suppress(Counted):
                train(session, learner, problems, settings, run, on_step=stamp)
            lines = [json.loads(line) for line in (run.path / "timings.jsonl").read_text().splitlines()]
    names = ("generate_s", "sync_s", "verify_wait_s", "learn_s", "save_s", "other_s")
    parts = {name: [line[name] for line in lines] for name in names}
    parts["idle_share"] = [1 - (line["generate_s"] + line["learn_s"]) / line["total_s"] for line in lines]
    return stamps.result(options.steps, parts, by_twos(tokens))


class MadeUpPrompts:
    """Prompts of given length, in the place of `PromptBuilder`; challenges of a problem are told apart by when they are asked for."""

    def __init__(self, work: Workload) -> None:
        self.work, self.asked, self.lock = work, Counter[str](), threading.Lock()

    def draft(self, problem: Problem) -> Prompt:
        return Prompt(tuple(self.work.draft_prompt(int(problem.id))), "")

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        with self.lock:
            self.asked[problem.id] += 1
            sample = self.asked[problem.id] - 1
        return Prompt(tuple(self.work.challenge_ids(int(problem.id), sample)), "")


class HalfRight:
    """Says of every second completion of a problem that it is right, in the place of the verifiers."""

    def __init__(self) -> None:
        self.seen, self.lock = Counter[str](), threading.Lock()

    def verify(self, pairs: Sequence[tuple[Problem, Completion]], style: str) -> list[Verdict]:
        with self.lock:
            self.seen.update(problem.id for problem, _ in pairs)
            return [Verdict("correct" if self.seen[problem.id] % 2 else "wrong", 0.0) for problem, _ in pairs]

    def check_error_share(self) -> None: ...

    def close(self) -> None: ...


def force_lengths(session: Session, work: Workload, tokens: list[int]) -> None:
    """Let the engine's n-th call end each row where the workload's n-th stage does."""
    engine, stage = session.engine, itertools.count()
    assert not (isinstance(engine, GrowingEngine) and engine.can_grow), "adapters side by side have no stages"
    sample = engine.generate

    def generate(requests: Sequence[Request], on_finish: Any = None) -> list[Completion]:
        caps = work.new_tokens(next(stage))
        asked = [replace(request, max_tokens=cap) for request, cap in zip(requests, caps, strict=True)]
        done = sample(asked, on_finish)
        tokens.append(sum(completion.num_tokens for completion in done))
        return done

    engine.generate = generate


# --- TRL's


def theirs(
    work: Workload, settings: Settings, problems: Sequence[Problem], options: argparse.Namespace
) -> dict[str, Any]:
    # As agon sets it for itself; TRL's way of writing weights needs the engine in this process, too.
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import trl_agon
    from transformers import AutoModelForCausalLM, AutoTokenizer

    has_gpu, own = torch.cuda.is_available(), settings.train
    dtype = torch.bfloat16 if has_gpu else torch.float32
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype).to("cuda" if has_gpu else "cpu")
    stamps, rollouts = Stamps("trl"), TimedRollouts(work)
    steps = [problems_of_step(problems, n, per_step=own.problems_per_step, seed=own.seed) for n in range(own.steps)]
    more: dict[str, Any] = {}
    if has_gpu and not options.tiny:
        more |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4}
        more["vllm_max_model_length"] = work.challenge_prompt + work.cap
    if options.trl_keeps_activations:
        more["gradient_checkpointing"] = False
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl_agon.make_trainer(
            trl_agon.two_adapters(model, settings.adapter),
            AutoTokenizer.from_pretrained(options.model),
            [problem.id for chosen in steps for problem in 2 * chosen],
            settings,
            rollouts.sample,
            output_dir=folder,
            rows_at_once=options.trl_rows,
            **more,
        )
        trainer.add_callback(every_second_step(stamps))
        force_vllm_lengths(trainer, work) if trainer.use_vllm else force_transformers_lengths(trainer, work)
        trainer.train()
    return stamps.result(options.steps, {"generate_s": by_twos(rollouts.seconds)}, by_twos(rollouts.tokens))


class TimedRollouts:
    """Asks with made-up prompts and says that half of each group is right; notes how long sampling took."""

    def __init__(self, work: Workload) -> None:
        self.work, self.seconds, self.tokens = work, list[float](), list[int]()

    def sample(self, ids: list[str], trainer: Any) -> dict[str, Any]:
        numbers = [int(id_) for id_ in ids]
        if trainer.state.global_step % 2:
            size = self.work.group_size
            prompts = [self.work.challenge_ids(number, row % size) for row, number in enumerate(numbers)]
        else:
            prompts = [self.work.draft_prompt(number) for number in numbers]
        started = time.perf_counter()
        sampled, logprobs = trainer._generate_single_turn(prompts, None, {}, trainer.num_generations)
        self.seconds.append(time.perf_counter() - started)
        self.tokens.append(sum(map(len, sampled)))
        nothing = [0.0] * len(ids)
        earned = {"correctness": [float(row % 2) for row in range(len(ids))], "form": nothing, "conversion": nothing}
        return {"prompt_ids": prompts, "completion_ids": sampled, "logprobs": logprobs, **earned}


def every_second_step(stamps: Stamps) -> Any:
    from transformers import TrainerCallback

    class EverySecondStep(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            stamps.add()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step % 2 == 0:
                stamps.add()

    return EverySecondStep()


def force_vllm_lengths(trainer: Any, work: Workload) -> None:
    """Give each row of a call parameters of its own; TRL gives all the same, and the model's own stop would end them."""
    llm = trainer.vllm_generation.llm
    stock = llm.generate

    def generate(prompts: Any, *, sampling_params: Any, **more: Any) -> Any:
        rows = [sampling_params.clone() for _ in prompts]
        for row, cap in zip(rows, work.new_tokens(trainer.state.global_step), strict=True):
            row.max_tokens, row.ignore_eos = cap, True
        return stock(prompts, sampling_params=rows, **more)

    llm.generate = generate


def force_transformers_lengths(trainer: Any, work: Workload) -> None:
    """End each row by a stop token in its place, and by none before."""
    from transformers import LogitsProcessor, LogitsProcessorList

    class Ends(LogitsProcessor):
        def __init__(self, caps: list[int], num_prompt: int) -> None:
            self.last, self.num_prompt = torch.tensor(caps) - 1, num_prompt

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            is_last = self.last.to(scores.device) == input_ids.shape[1] - self.num_prompt
            stop = trainer.eos_token_ids[0]
            scores = scores.clone()
            scores[is_last] = -torch.inf
            scores[:, stop] = torch.where(is_last, 0.0, -torch.inf)
            return scores

    stock = trainer.model.generate

    def generate(*, input_ids: torch.Tensor, **more: Any) -> Any:
        ends = Ends(work.new_tokens(trainer.state.global_step), input_ids.shape[1])
        return stock(input_ids=input_ids, logits_processor=LogitsProcessorList([ends]), **more)

    trainer.model.generate = generate
