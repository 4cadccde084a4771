"""A problem typed by a person, as `agon solve` takes it."""

from __future__ import annotations

import re
from typing import NamedTuple

from agon.config import TaskSettings
from agon.countdown_text import LARGEST_NUMBER, LARGEST_VALUE, draft_question
from agon.errors import DataError
from agon.records import Problem
from agon.tasks.rows import content_id
from agon.tasks.sources import verifier_of

# Few digits: int() refuses thousands of them.
_COUNTDOWN = re.compile(
    r"\s*(?:[a-c]\s*)?(\d{1,9})[\s,]+(?:[a-c]\s*)?(\d{1,9})[\s,]+(?:[a-c]\s*)?(\d{1,9})\s*(?:=|->|:)\s*(\d{1,9})\s*"
)


# Most characters of a typed text that an error repeats.
_MOST_SHOWN = 80


class Typed(NamedTuple):
    """A problem, and whether a program can check its answer."""

    problem: Problem
    can_check: bool


def typed_problem(settings: TaskSettings, text: str, gold: str | None) -> Typed:
    """Turn typed text into a problem of the run's task. Countdown takes no gold answer; any other is checked only with one.

    Raises:
        DataError: the text is empty, holds what is no character, or is no problem of a countdown task, or the gold answer is one that no program can use.
    """
    _require_text(text, "the problem")
    _require_text(gold or "", "the right answer")
    if settings.name == "countdown-lite" and settings.path is None:
        problem = _countdown(text)
        if gold is not None:
            raise DataError("a program alone checks the answers to these problems: leave the right answer out")
        return Typed(problem, can_check=True)
    if not text.strip():
        raise DataError("the problem is empty: give its text")
    if gold is not None and not gold.strip():
        raise DataError("the right answer is empty: give one, or leave it out")
    verifier = verifier_of(settings)
    if verifier == "expression":
        raise DataError(
            "a typed problem has no numbers and target for the expression verifier: measure it with agon eval"
        )
    missing = {"code": "tests for its program", "reasoning-gym": "item that its scorer knows"}.get(verifier)
    if missing is not None and gold is not None:
        raise DataError(f"a typed problem has no {missing}: leave the answer out, or measure it with agon eval")
    problem = Problem(id=content_id(text), question=text, gold=gold or "", task=settings.name, verifier=verifier)
    return Typed(problem, can_check=gold is not None)


def _require_text(text: str, name: str) -> None:
    # A shell hands bytes that are no UTF-8 on as halves of surrogate pairs, which no tokenizer takes.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"character {error.start} of {name} is none that UTF-8 has: give it as UTF-8") from None


def _countdown(text: str) -> Problem:
    found = _COUNTDOWN.fullmatch(text)
    if found is None:
        raise DataError(
            f"{_shown(text)} is no countdown problem: give three numbers and a target, such as '12 7 5 = 24'"
        )
    *numbers, target = (int(group) for group in found.groups())
    if not all(1 <= number <= LARGEST_NUMBER for number in numbers) or not 1 <= target <= LARGEST_VALUE:
        raise DataError(
            f"{_shown(text)} is outside the base's world: numbers are 1 to {LARGEST_NUMBER}, the target is 1 to {LARGEST_VALUE}"
        )
    # The base knows the numbers in falling order.
    numbers.sort(reverse=True)
    question = draft_question(numbers, target)
    return Problem(
        id=content_id(question),
        question=question,
        gold="",
        task="countdown-lite",
        verifier="expression",
        summary_style="tries",
        details={"numbers": numbers, "target": target},
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
