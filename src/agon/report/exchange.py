"""What a challenge did to the draft it read: every match falls into one cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from agon.records import Match

CELLS: Mapping[str, str] = {
    "wrong-right": "draft wrong → challenge right",
    "right-wrong": "draft right → challenge wrong",
    "right-right": "draft right → challenge right",
    "wrong-wrong": "draft wrong → challenge wrong",
    "right": "answer right",
    "wrong": "answer wrong",
    "unjudged": "checker failed",
}
"""Names of the cells. With several drafts, "draft right" means that one of them was. Without a challenge only the answer counts."""


def cell_of(match: Match) -> str:
    """Return the cell a match falls into."""
    if any(attempt.verdict.is_masked for attempt in match.attempts):
        return "unjudged"
    final = "right" if match.final.is_correct else "wrong"
    if match.challenge is None:
        return final
    draft = "right" if any(draft.is_correct for draft in match.drafts) else "wrong"
    return f"{draft}-{final}"


@dataclass(frozen=True, slots=True)
class CellCounts:
    """How many matches fell into each cell. The counts add up to `total`."""

    counts: Mapping[str, int]

    @classmethod
    def of(cls, counter: Counter[str]) -> CellCounts:
        """Take the counts in the order of `CELLS`."""
        return cls({cell: counter[cell] for cell in CELLS if counter[cell]})

    @property
    def total(self) -> int:
        """All matches."""
        return sum(self.counts.values())

    @property
    def converted(self) -> tuple[int, int]:
        """Challenges that were right, and all matches, where the draft was wrong."""
        hits = self.counts.get("wrong-right", 0)
        return hits, hits + self.counts.get("wrong-wrong", 0)

    @property
    def regressed(self) -> tuple[int, int]:
        """Challenges that were wrong, and all matches, where the draft was right."""
        hits = self.counts.get("right-wrong", 0)
        return hits, hits + self.counts.get("right-right", 0)
