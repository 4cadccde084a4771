"""What matches are played with: an engine over the adapters, the prompts, the checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import torch

from agon.config import RolloutSettings, Settings
from agon.errors import ConfigError
from agon.match.borders import Prompter, Summarizer
from agon.match.engines import Host, open_engine, start_host
from agon.match.memory import RememberingEngine
from agon.model.base import Base, load_base
from agon.model.checkpoint import load_adapters
from agon.model.pair import AdapterPair
from agon.prompts.builder import PromptBuilder
from agon.prompts.summary import DraftSummarizer
from agon.prompts.wordings import Aim
from agon.records import AnswerStyle, Problem, Summary, Withholding
from agon.rollout.engine import Engine
from agon.seeding import numpy_rng
from agon.tasks.data import DroppedRow, Origin
from agon.tasks.loader import drop_long
from agon.verifiers.base import Verifier
from agon.verifiers.registry import open_verifiers

# Below this size a second thread costs more than it computes (the embedded base, two cores: one thread samples 20k tokens/s, two 8k).
_ONE_THREAD_BELOW_PARAMETERS = 5_000_000
_NUM_PROBES = 8
_MAX_PROBE_TOKENS = 256


class Checker(Verifier, Protocol):
    """What `play` needs of the verifiers: their border, and a stop when too many checks fail."""

    def check_error_share(self) -> None:
        """Raise VerifierError when too many checks failed by the checkers' own fault."""
        ...


@dataclass(slots=True)
class Session:
    """An open engine with its prompts and checkers. A context manager: leaving it ends worker processes.

    `versions` says how many steps each adapter has taken, for the check that the engine sampled from the present one, or from one at
    most `max_lag` steps older. `engine_seconds` is the time spent in the engine so far, `verify_wait_seconds` the time in which it was done
    and verdicts were still missing.
    """

    engine: Engine
    prompts: Prompter
    verifiers: Checker
    style: AnswerStyle
    tokenizer: Any
    pair: AdapterPair | None = None
    max_lag: int = 0
    withholding: Withholding = "mark"
    engine_seconds: float = 0.0
    verify_wait_seconds: float = 0.0

    @property
    def versions(self) -> Mapping[str | None, int]:
        """Optimiser steps of each adapter; 0 for the base."""
        if self.pair is None:
            return {}
        return {None: 0, **{name: self.pair.version(name) for name in self.pair.names}}

    @property
    def summarizer(self) -> Summarizer:
        """What says what a challenger may see of a draft."""
        return DraftSummarizer(self.style, self.tokenizer, self.withholding)

    @property
    def sampling_seconds(self) -> float:
        """What all completions so far cost in the engine, those that were remembered included."""
        recalled = self.engine.recalled_seconds if isinstance(self.engine, RememberingEngine) else 0.0
        return self.engine_seconds + recalled

    def remembering(self) -> Session:
        """Return this session with an engine that samples no request twice, while the adapters stay as they are."""
        if isinstance(self.engine, RememberingEngine):
            return self
        return replace(self, engine=RememberingEngine(self.engine), engine_seconds=0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the engine and the worker processes."""
        self.engine.close()
        self.verifiers.close()


def open_session(settings: Settings, *, problems: Sequence[Problem] = (), checkpoint: Path | None = None) -> Session:
    """Load the base, put the pair of adapters on it, and open engine, prompts and checkers.

    The adapters are new ones from the run's seed, or those of `checkpoint`. `problems` give the prompts on which the noise of
    `adapter.init = "noise"` is calibrated.

    Raises:
        ModelError: the base or an adapter cannot be used.
    """
    loaded = load_pair(settings, problems=problems, checkpoint=checkpoint)
    return Session(
        engine=open_engine(settings.rollout, loaded.pair, loaded.host, probe=loaded.probe),
        prompts=loaded.prompts,
        verifiers=open_verifiers(settings.verifier),
        style=settings.task.answer_style,
        tokenizer=loaded.pair.base.tokenizer,
        pair=loaded.pair,
        max_lag=settings.rollout.max_adapter_lag,
        withholding=settings.task.withholding,
    )


class LoadedPair(NamedTuple):
    """A pair over which an engine can be opened, on a host where vLLM samples. `probe` is a text to look at its adapters through."""

    pair: AdapterPair
    host: Host | None
    prompts: PromptBuilder
    probe: tuple[int, ...]


def load_pair(
    settings: Settings, *, problems: Sequence[Problem] = (), checkpoint: Path | None = None, is_serving: bool = False
) -> LoadedPair:
    """Load the base and put the pair on it, as `open_session` says; where vLLM samples it is started, for a server if it `is_serving`.

    Raises:
        ConfigError: a server is wanted, but the settings serve one adapter at a time.
        ModelError: the base or an adapter cannot be used.
    """
    base = load_base(settings.model)
    limit_threads(base)
    prompts = prompt_builder(settings, base.tokenizer)
    probes = _probe_prompts(prompts, problems, settings.train.seed)
    host = start_host(settings, base, is_serving=is_serving)
    # What a checkpoint will fill needs no calibrated noise first.
    adapter = settings.adapter.model_copy(update={"init": "standard"}) if checkpoint else settings.adapter
    pair = AdapterPair.create(base, adapter, seed=settings.train.seed, probe_prompts=probes)
    if checkpoint is not None:
        load_adapters(pair, checkpoint)
    return LoadedPair(pair, host, prompts, probes[0][:_MAX_PROBE_TOKENS] if probes else ())


def open_base_session(settings: Settings) -> Session:
    """Open a session of the bare base, without adapters."""
    base = load_base(settings.model)
    limit_threads(base)
    return Session(
        engine=open_engine(settings.rollout, base, start_host(settings, base)),
        prompts=prompt_builder(settings, base.tokenizer),
        verifiers=open_verifiers(settings.verifier),
        style=settings.task.answer_style,
        tokenizer=base.tokenizer,
        withholding=settings.task.withholding,
    )


def prompt_builder(settings: Settings, tokenizer: Any) -> PromptBuilder:
    """Return what writes the prompts of a run.

    Raises:
        ConfigError: the wording is unknown, or the chat template has no thinking switch where one is set.
    """
    target = settings.reward.length_target
    return PromptBuilder(
        tokenizer,
        wording=settings.task.wording,
        style=settings.task.answer_style,
        enable_thinking=settings.model.enable_thinking,
        aim=None if target is None else Aim(target, is_limit=settings.train.method == "lcpo-max"),
    )


def limit_threads(base: Base) -> None:
    """Use one thread for a base so small that a second one only waits."""
    if base.device.type == "cpu" and base.num_parameters < _ONE_THREAD_BELOW_PARAMETERS:
        torch.set_num_threads(1)


class _Context(Protocol):
    @property
    def context_length(self) -> int: ...


class Fitting(Protocol):
    """What decides whether a problem fits: a session of any kind."""

    @property
    def engine(self) -> _Context:
        """Whatever knows the length of the context."""
        ...

    @property
    def prompts(self) -> Prompter:
        """Who writes the prompts."""
        ...


def fit_problems(
    session: Fitting,
    problems: Sequence[Problem],
    settings: RolloutSettings,
    *,
    max_prompt_tokens: int,
    num_summaries: int = 1,
    origins: Mapping[str, Origin] | None = None,
) -> tuple[tuple[Problem, ...], tuple[DroppedRow, ...]]:
    """Drop the problems whose prompts would not fit, and say which, by their rows where `origins` names these. Nothing is ever cut silently.

    A problem fits if its draft prompt has at most `max_prompt_tokens` and leaves room in the context for a draft, and its challenge
    prompt with `num_summaries` of the longest summaries for a challenge.

    Raises:
        ConfigError: no prompt at all could fit.
    """
    context = session.engine.context_length
    if not problems:
        return (), ()
    shortest = min(problems, key=lambda problem: len(problem.question))
    withheld = Summary(text="", is_empty=True, has_leak=False, num_withheld=0)
    plain = len(session.prompts.draft(shortest).token_ids)
    # What is said around a summary differs by whether it shows the answer.
    both = ([one] * num_summaries for one in (withheld, replace(withheld, shows_answer=True)))
    added = max(0, *(len(session.prompts.challenge(shortest, shown).token_ids) - plain for shown in both))
    room = min(
        context - settings.max_draft_tokens,
        context - settings.max_challenge_tokens - num_summaries * settings.max_summary_tokens - added,
    )
    if room < plain:
        raise ConfigError(
            f"the context of {context} tokens leaves {room} for a prompt, but the shortest needs {plain}: lower "
            f"rollout.max_draft_tokens ({settings.max_draft_tokens}), max_challenge_tokens ({settings.max_challenge_tokens}) "
            f"or max_summary_tokens ({settings.max_summary_tokens})"
        )
    limit = min(max_prompt_tokens, room)
    return drop_long(problems, lambda problem: len(session.prompts.draft(problem).token_ids), limit, origins=origins)


def _probe_prompts(prompts: PromptBuilder, problems: Sequence[Problem], seed: int) -> list[tuple[int, ...]] | None:
    if not problems:
        return None
    picked = numpy_rng(seed, "probes").choice(len(problems), size=min(_NUM_PROBES, len(problems)), replace=False)
    return [prompts.draft(problems[index]).token_ids for index in sorted(picked.tolist())]
