"""What is given on a command line or in a file, turned into checks: a gold answer, an answer, a whole output."""

from __future__ import annotations

from typing import Any, Literal

from agon.answers import ANSWER_CLOSE, ANSWER_OPEN
from agon.audit.judge import Check, written
from agon.records import Completion, Problem
from agon.tasks.rows import Columns, problem_of
from agon.verifiers.foreign import stated_answer

# How the answer of a whole output is found: by its marks, or leniently by what it states (`agon.verifiers.foreign`).
Reading = Literal["stated", "boxed", "tags"]


def answered(answer: str) -> Completion:
    """Return a completion that holds nothing but an answer block."""
    return written(f"{ANSWER_OPEN}{answer}{ANSWER_CLOSE}")


def problem_for(gold: Any, verifier: str) -> Problem:
    """Return a problem of which nothing but the gold answer is known.

    Raises:
        UnusableRow: no answer could be judged by this gold.
    """
    columns = Columns("question", "gold", None)
    return problem_of({"question": "(not given)", "gold": gold}, columns, task="given", verifier=verifier)


def read_whole(problem: Problem, text: str, reading: Reading, *, source: Any = None) -> Check:
    """Return a check of a whole output, whose answer is found by `reading`."""
    if reading != "stated":
        return Check(problem, written(text), reading, source)
    stated = stated_answer(text)
    return Check(problem, written("") if stated is None else answered(stated), "tags", source)
