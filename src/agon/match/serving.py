"""What a server plays matches with: an engine that is driven step by step, the prompts, the checkers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from agon.config import Settings
from agon.match.borders import Prompter, Summarizer
from agon.match.engines import open_stepping_engine
from agon.match.session import Checker, load_pair
from agon.model.pair import AdapterPair
from agon.prompts.summary import DraftSummarizer
from agon.records import AnswerStyle
from agon.rollout.stepping import SteppingEngine
from agon.verifiers.registry import open_verifiers


class ServingSession(NamedTuple):
    """An open stepping engine over a pair, with its prompts and checkers. Whoever takes `engine` and `verifiers` over closes them.

    The engine is driven by one thread. Prompts, summaries and checks may be asked for from others.
    """

    engine: SteppingEngine
    prompts: Prompter
    summarizer: Summarizer
    verifiers: Checker
    style: AnswerStyle
    tokenizer: Any
    pair: AdapterPair


def open_serving_session(settings: Settings, checkpoint: Path) -> ServingSession:
    """Load the base and the adapters of a checkpoint, and open a stepping engine, prompts and checkers.

    Raises:
        ConfigError: the settings serve one adapter at a time.
        EngineError: the engine does not start, or an adapter does not act in it.
        ModelError: the base or an adapter cannot be used.
    """
    loaded = load_pair(settings, checkpoint=checkpoint, is_serving=True)
    style, tokenizer = settings.task.answer_style, loaded.pair.base.tokenizer
    return ServingSession(
        engine=open_stepping_engine(settings.rollout, loaded.pair, loaded.host),
        prompts=loaded.prompts,
        summarizer=DraftSummarizer(style, tokenizer, settings.task.withholding),
        verifiers=open_verifiers(settings.verifier),
        style=style,
        tokenizer=tokenizer,
        pair=loaded.pair,
    )
