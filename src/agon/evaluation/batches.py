"""A whole split, played batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agon.config import EvaluationSettings
from agon.errors import DataError
from agon.match.play import Sampling, play
from agon.match.session import Session
from agon.records import Lineup, Match, Problem

Progress = Callable[[int, int], None]


def play_all(
    session: Session,
    problems: Sequence[Problem],
    lineup: Lineup,
    *,
    settings: EvaluationSettings,
    sampling: Sampling,
    stream: str = "evaluate",
    progress: Progress | None = None,
) -> list[list[Match]]:
    """Play `settings.samples` matches of every problem, and return them in the order of the problems.

    Placebos come from all the problems, and not from the batch alone.
    """
    order = list(range(len(problems)))
    if lineup.reads == "placebo":
        # In this order a problem's partner is in its own batch, but for the last: few drafts are sampled to be read alone.
        order.sort(key=lambda number: problems[number].id)
    matches: dict[int, list[Match]] = {}
    for start in range(0, len(order), settings.problems_per_batch):
        numbers = order[start : start + settings.problems_per_batch]
        played = play(
            session,
            [problems[number] for number in numbers],
            lineup,
            samples=settings.samples,
            sampling=sampling,
            seed=settings.seed,
            stream=(stream,),
            among=problems,
        )
        matches |= dict(zip(numbers, played, strict=True))
        if progress is not None:
            progress(len(matches), len(problems))
    return [matches[number] for number in range(len(problems))]


def require_problems(problems: Sequence[Problem], *, task: str, split: str) -> None:
    """Check that a split has problems.

    Raises:
        DataError: it has none.
    """
    if not problems:
        raise DataError(f"the {split} split of {task} is empty: nothing to evaluate; raise task.{split}_share")
