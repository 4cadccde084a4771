"""The pair that `serve_gpu.py` measures with: a base with both adapters in one engine, and counters around it."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agon.config import AdapterSettings, Settings
from agon.match.asking import Sampling
from agon.match.engines import open_engine, open_stepping_engine, start_host
from agon.match.lineups import lineup_for
from agon.match.session import Session, prompt_builder
from agon.model.base import load_base
from agon.model.pair import AdapterPair
from agon.prompts.summary import DraftSummarizer
from agon.records import Completion, Problem, Summary, Verdict
from agon.rollout.stepping import Progress, SteppingEngine
from agon.rollout.text import TextReader
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_stepping import VllmSteppingEngine
from agon.serve.checking import Check, checked_in
from agon.tasks.typed import typed_problem
from agon.verifiers.base import CHECKING_THREADS
from agon.verifiers.registry import open_verifiers

GOLD = "42"
SUMMARY_TOKENS = 256
_WORDS = "a box holds red blue and green balls how many ways to draw three so that no two are of the same colour"


class EndedDrafts(DraftSummarizer):
    """Reads drafts which reached their cap as if they had ended: else there would be nothing to pass on."""

    def summarize(
        self, problem: Problem, completion: Completion, *, max_tokens: int, shows_answer: bool = False
    ) -> Summary:
        ended = replace(completion, stop_reason="stop")
        return super().summarize(problem, ended, max_tokens=max_tokens, shows_answer=shows_answer)


class EndedSession(Session):
    """A session with such summaries."""

    @property
    def summarizer(self) -> EndedDrafts:
        return EndedDrafts(self.style, self.tokenizer)


@dataclass(slots=True)
class Clock:
    """When the checks of each problem's completions were asked for: the last is the end of its match. Safe from any thread."""

    verifier: Any
    times: dict[str, float] = field(default_factory=dict[str, float])

    def verify(self, pairs: Sequence[tuple[Problem, Completion]], style: Any) -> list[Verdict]:
        for problem, _ in pairs:
            self.times[problem.id] = time.perf_counter()
        return self.verifier.verify(pairs, style)

    def check_error_share(self) -> None:
        self.verifier.check_error_share()

    def close(self) -> None:
        self.verifier.close()


class Counted:
    """A stepping engine that outlives the servers it is lent to, and counts its steps and what they tell."""

    def __init__(self, engine: SteppingEngine) -> None:
        self.engine = engine
        self.context_length = engine.context_length
        self.add, self.cancel = engine.add, engine.cancel
        self.steps, self.seconds, self.told = 0, 0.0, 0

    @property
    def num_open(self) -> int:
        return self.engine.num_open

    def step(self) -> list[Progress]:
        started = time.perf_counter()
        told = self.engine.step()
        self.seconds += time.perf_counter() - started
        self.steps += 1
        self.told += len(told)
        return told

    def close(self) -> None:
        """Nothing: it is closed with what is measured."""


class Pair:
    """A base with both adapters and everything that plays with it. `engine` and `stepping` are one vLLM, never used at once."""

    def __init__(self, folder: Path, *, max_rows: int, new_tokens: int) -> None:
        self.settings = Settings.model_validate(
            {
                "model": {"base": str(folder)},
                "task": {"name": "custom", "path": "typed.jsonl", "verifier": "exact", "answer_style": "boxed"},
                "rollout": {
                    "max_rows": max_rows,
                    "vllm_adapters": "multi-lora",
                    "max_draft_tokens": new_tokens,
                    "max_challenge_tokens": new_tokens,
                    "max_summary_tokens": SUMMARY_TOKENS,
                },
            }
        )
        self.sampling = Sampling(new_tokens, new_tokens, SUMMARY_TOKENS)
        self.lineup = lineup_for("cascade")
        base = load_base(self.settings.model)
        prompts = prompt_builder(self.settings, base.tokenizer)
        host = start_host(self.settings, base, is_serving=True)
        pair = AdapterPair.create(base, AdapterSettings(init="standard"), seed=0)
        with torch.no_grad():
            for name in pair.names:
                for site in pair.sites:
                    site.up(name).normal_().mul_(1e-3)
        self.engine = open_engine(self.settings.rollout, pair, host)
        if isinstance(self.engine, VllmEngine):
            self.server, stepping = self.engine.server, VllmSteppingEngine(self.engine)
        else:
            self.server, stepping = None, open_stepping_engine(self.settings.rollout, pair, host)
        self.stepping = Counted(stepping)
        self.clock = Clock(open_verifiers(self.settings.verifier))
        self.session = EndedSession(
            self.engine, prompts, self.clock, self.settings.task.answer_style, base.tokenizer, pair
        )
        self.threads = ThreadPoolExecutor(CHECKING_THREADS, thread_name_prefix="agon-check")
        self.check: Check = checked_in(self.threads, self.clock)
        self.reader = TextReader(base.tokenizer)
        self.core_steps, self.core_seconds = 0, 0.0
        self.gc_seconds, self._gc_since = 0.0, 0.0
        gc.callbacks.append(self._count_gc)
        if self.server is not None:
            self._count_core(self.server)

    def _count_core(self, server: Any) -> None:
        step = server.step

        def counted() -> Any:
            started = time.perf_counter()
            pieces = step()
            self.core_seconds += time.perf_counter() - started
            self.core_steps += 1
            return pieces

        server.step = counted

    def _count_gc(self, phase: str, info: Any) -> None:
        if phase == "start":
            self._gc_since = time.perf_counter()
        else:
            self.gc_seconds += time.perf_counter() - self._gc_since

    def problems(self, count: int) -> list[Problem]:
        return [typed_problem(self.settings.task, text, GOLD).problem for text in questions(count)]

    def forget(self) -> None:
        """Let no round find the prompts of the one before, nor its counts."""
        if self.server is not None:
            self.server.forget_prefixes()
        self.clock.times.clear()
        self.core_steps, self.core_seconds, self.gc_seconds = 0, 0.0, 0.0
        self.stepping.steps, self.stepping.seconds, self.stepping.told = 0, 0.0, 0

    @contextmanager
    def shorter(self, new_tokens: int) -> Generator[None]:
        """Sample fewer tokens a stage for a while."""
        whole, self.sampling = self.sampling, Sampling(new_tokens, new_tokens, SUMMARY_TOKENS)
        try:
            yield
        finally:
            self.sampling = whole

    def close(self) -> None:
        self.threads.shutdown()
        self.stepping.engine.close()
        self.session.close()


def questions(count: int) -> list[str]:
    """Problems of about a hundred tokens, no two alike."""
    words = _WORDS.split()
    rng = np.random.default_rng(3)
    return [
        f"Problem {number}: " + " ".join(words[i] for i in rng.integers(0, len(words), 90)) + "?"
        for number in range(count)
    ]
