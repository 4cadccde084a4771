"""What a server plays matches with: an engine that is driven step by step, the prompts, the checkers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agon.config import Settings
from agon.match.borders import Prompter
from agon.match.engines import open_stepping_engine
from agon.match.session import Checker, load_pair
from agon.model.pair import AdapterPair
from agon.prompts.summary import summarize
from agon.records import AnswerStyle, Completion, Problem, Summary
from agon.rollout.stepping import SteppingEngine
from agon.verifiers.registry import open_verifiers


@dataclass(frozen=True, slots=True)
class ServingSession:
    """An open stepping engine over a pair, with its prompts and checkers. A context manager: leaving it ends engine and worker processes.

    The engine is driven by one thread. Prompts, summaries and checks may be asked for from others. It is a `Summarizer`.
    """

    engine: SteppingEngine
    prompts: Prompter
    verifiers: Checker
    style: AnswerStyle
    tokenizer: Any
    pair: AdapterPair

    def summarize(
        self, problem: Problem, completion: Completion, *, max_tokens: int, shows_answer: bool = False
    ) -> Summary:
        """Return what a challenger may see of a draft."""
        return summarize(
            problem,
            completion,
            style=self.style,
            tokenizer=self.tokenizer,
            max_tokens=max_tokens,
            shows_answer=shows_answer,
        )

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


def open_serving_session(settings: Settings, checkpoint: Path) -> ServingSession:
    """Load the base and the adapters of a checkpoint, and open a stepping engine, prompts and checkers.

    Raises:
        ConfigError: the settings serve one adapter at a time.
        EngineError: the engine does not start, or an adapter does not act in it.
        ModelError: the base or an adapter cannot be used.
    """
    loaded = load_pair(settings, checkpoint=checkpoint, is_serving=True)
    return ServingSession(
        engine=open_stepping_engine(settings.rollout, loaded.pair, loaded.host),
        prompts=loaded.prompts,
        verifiers=open_verifiers(settings.verifier),
        style=settings.task.answer_style,
        tokenizer=loaded.pair.base.tokenizer,
        pair=loaded.pair,
    )
