"""What a server offers: its models as line-ups, the default first, and what their stages are asked with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agon.config import TaskSettings
from agon.match.asking import Sampling
from agon.match.borders import Prompter, Summarizer
from agon.match.lineups import lineup_for, trained_protocol
from agon.methods.base import BaseMethod
from agon.records import DIRECTIONS, AnswerStyle, Direction, Lineup, Problem
from agon.runs.evaluations import noted_prompts

# Protocols whose direction, chosen on development problems, is that of what is served.
_DEPLOYED = ("cascade", "answer-visible")


class GrowingText(Protocol):
    """Reads tokens as they come."""

    def add(self, token_ids: Sequence[int]) -> str:
        """Take more tokens, and return the text that is finished with them."""
        ...


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A model's tokens, for prompts that go to it as they are and for logprobs. `size` bounds the ids that it knows.

    `stop_ids` end a completion and are no part of its text, which `open_text` reads.
    """

    encode: Callable[[str], Sequence[int]]
    decode: Callable[[Sequence[int]], str]
    size: int
    open_text: Callable[[], GrowingText]
    stop_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be asked for. `models` stand in the order in which they are listed, the default first.

    `sampling` is what a request gets that asks for nothing else. `vocabulary` is None where nobody knows it: then no model continues raw
    text, and there are no logprobs. `takes_conversations` says that what was said before a problem is read, which no trained pair does.
    """

    name: str
    models: Mapping[str, Lineup]
    sampling: Sampling
    prompts: Prompter
    summarizer: Summarizer
    style: AnswerStyle
    task: TaskSettings
    vocabulary: Vocabulary | None = None
    takes_conversations: bool = False
    method: str | None = None
    problems: Sequence[Problem] = ()

    @property
    def default(self) -> str:
        """The model of a request that names none."""
        return next(iter(self.models))


def run_models(method: BaseMethod, direction: Direction) -> dict[str, Lineup]:
    """Return the models of a trained run: its cascade as it was trained, the likelier of two drafts, and each player alone.

    A pair has its cascade in both directions, of which `direction` is the default, and one draft of each adapter. A run of one adapter
    has a self-cascade, as `agon solve` plays it, and two drafts of that adapter.
    """
    base = lineup_for("single", is_base=True)
    if not method.has_pair:
        alone = lineup_for("single", adapter="A")
        return {
            "cascade": lineup_for("self-cascade", adapter="A"),
            "likeliest": lineup_for("likeliest", adapter="A"),
            "drafter": alone,
            "base": base,
        }
    trained = trained_protocol(method)
    protocol = trained if trained in _DEPLOYED else "cascade"
    other: Direction = "b-a" if direction == "a-b" else "a-b"
    first = lineup_for(protocol, direction=direction)
    return {
        "cascade": first,
        f"cascade-{other}": lineup_for(protocol, direction=other),
        "likeliest": lineup_for("likeliest", adapter=None),
        "drafter": Lineup(drafters=first.drafters),
        "challenger": Lineup(drafters=(first.challenger,)),
        "base": base,
    }


def direction_of(lineup: Lineup) -> Direction | None:
    """Return in which direction a line-up plays two adapters; None for any other."""
    if not lineup.has_challenge:
        return None
    match lineup.drafters[0], lineup.challenger:
        case "A", "B":
            return "a-b"
        case "B", "A":
            return "b-a"
        case _:
            return None


def _is_asked_with(result: Mapping[str, Any], prompts: Mapping[str, str]) -> bool:
    """Tell whether a result was asked with these prompts. An older one says in a note where it was not asked as in training."""
    asked = result.get("prompts")
    if asked is not None:
        return asked == prompts
    return not noted_prompts(result)


def chosen_direction(
    evaluations: Iterable[Mapping[str, Any]], *, task: str, prompts: Mapping[str, str]
) -> Direction | None:
    """Return the direction that a run's evaluations on a task chose on its development problems; of several the one that did best there.

    What was asked with other `prompts` than those that are served says nothing. None where none was chosen.
    """
    chosen = [
        result
        for result in evaluations
        if result.get("task") == task
        and result.get("protocol") in _DEPLOYED
        and result.get("direction") in DIRECTIONS
        and _is_asked_with(result, prompts)
        and isinstance(result.get("dev_accuracy"), int | float)
    ]
    best = max(chosen, key=lambda result: result["dev_accuracy"], default=None)
    return None if best is None else best["direction"]
