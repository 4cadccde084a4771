"""Countdown-lite: make a target out of three numbers in two moves, a search that a tiny model can do by guess and check.

Three numbers 1..15 stand in the slots a, b, c in falling order. A solution is `(x o y) p z` with + - *, each number once, no
value on the way below 0 or above 32. Kept are the *hard* problems: some, but at most two, of the nine first moves lead to the
target. Dev and test are held out by (numbers, target), never by numbers alone: a base that has seen none of the test's
numbers in company learns problems by heart instead of searching.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement

from agon.countdown_text import FIRST_MOVES, LARGEST_NUMBER, LARGEST_VALUE, SECOND_MOVES, SLOTS, draft_question
from agon.records import Problem

TASK = "countdown-lite"
MOST_FIRST_MOVES = 2
NUM_TEST = 290
NUM_DEV = 200

Numbers = tuple[int, int, int]


def first_value(move: str, numbers: Sequence[int]) -> int | None:
    """Return what a first move such as `(a-b)` comes to, None if that is out of range."""
    return _apply(move[2], _slot(move[1], numbers), _slot(move[3], numbers))


def second_value(value: int, move: str, numbers: Sequence[int]) -> int | None:
    """Return what a second move such as `*c` makes of the first one's value, None if that is out of range."""
    return _apply(move[0], value, _slot(move[1], numbers))


def second_moves_after(first: str) -> tuple[str, ...]:
    """Return the three second moves that use the number a first move has left."""
    return tuple(move for move in SECOND_MOVES if move[1] not in first)


def solutions(numbers: Sequence[int], target: int) -> tuple[str, ...]:
    """Return every expression `(xoy)pz` in slot letters that comes to the target without leaving the range."""
    return tuple(
        first + second
        for first in FIRST_MOVES
        if (value := first_value(first, numbers)) is not None
        for second in second_moves_after(first)
        if second_value(value, second, numbers) == target
    )


def hitting_first_moves(numbers: Sequence[int], target: int) -> tuple[str, ...]:
    """Return the first moves that some second move completes to the target."""
    return tuple(dict.fromkeys(solution[: len(FIRST_MOVES[0])] for solution in solutions(numbers, target)))


def is_hard(numbers: Sequence[int], target: int) -> bool:
    """Whether some, but no more than two, first moves lead to the target."""
    return 0 < len(hitting_first_moves(numbers, target)) <= MOST_FIRST_MOVES


def all_questions() -> Iterator[tuple[Numbers, int]]:
    """Yield every (numbers, target), solvable or not, the numbers in falling order."""
    for a, b, c in combinations_with_replacement(range(LARGEST_NUMBER, 0, -1), len(SLOTS)):
        for target in range(1, LARGEST_VALUE + 1):
            yield (a, b, c), target


@cache
def countdown_problems() -> tuple[Problem, ...]:
    """Return every hard problem, in an order that depends on nothing but their content."""
    hard = [(numbers, target) for numbers, target in all_questions() if is_hard(numbers, target)]
    return tuple(sorted((_problem(numbers, target) for numbers, target in hard), key=lambda problem: problem.id))


@cache
def countdown_splits() -> dict[str, tuple[Problem, ...]]:
    """Return the problems as `train`, `dev` and `test`. The hash of their content decides, so the splits never change."""
    problems = countdown_problems()
    held_out = NUM_TEST + NUM_DEV
    return {"train": problems[held_out:], "dev": problems[NUM_TEST:held_out], "test": problems[:NUM_TEST]}


def split_of(problem: Problem) -> str:
    """Return the split a countdown-lite problem belongs to.

    Raises:
        KeyError: the problem is not one of the hard ones.
    """
    return _split_by_id()[problem.id]


@cache
def _split_by_id() -> dict[str, str]:
    return {problem.id: name for name, problems in countdown_splits().items() for problem in problems}


def _problem(numbers: Numbers, target: int) -> Problem:
    question = draft_question(numbers, target)
    return Problem(
        id=hashlib.sha256(f"{TASK}\x1f{question}".encode()).hexdigest()[:16],
        question=question,
        gold=solutions(numbers, target)[0],
        task=TASK,
        verifier="expression",
        summary_style="tries",
        details={"numbers": list(numbers), "target": target},
    )


def _slot(letter: str, numbers: Sequence[int]) -> int:
    return numbers[SLOTS.index(letter)]


def _apply(operator: str, left: int, right: int) -> int | None:
    value = {"+": left + right, "-": left - right, "*": left * right}[operator]
    return value if 0 <= value <= LARGEST_VALUE else None
