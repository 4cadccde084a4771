"""What a check of a data set found: one finding a row, with the row's number, and counts of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

# What makes a data set unfit as it is: `agon data check` then ends with exit code 1.
FAULTS: Mapping[str, str] = {
    "unusable": "rows that are no problem",
    "unreadable": "gold answers that the verifier cannot read",
    "misjudged": "gold answers that the verifier does not judge correct against themselves",
    "conflict": "questions that stand there with another answer",
    "duplicate": "questions that stand there before",
    "leak": "problems that also stand in a held-out split or in an evaluation set, in whatever spelling",
    "near-leak": "problems with most of their words in a row in a held-out split or an evaluation set",
    "dominant": "one answer that most problems have",
}
# What is told, but is harmless, or is left out by the settings when a run loads the task.
NOTES: Mapping[str, str] = {
    "long": "questions that are too long",
    "guessable": "answers that can be guessed (yes, no, true, false)",
    "similar": "problems with some 13 words in a row in a held-out split or an evaluation set",
    "redrawn": "generated problems that stand there before, and are left out at load",
    "unproven": "code problems without a program that proves their tests",
}
MAX_TEXT = 2_000


class Place(NamedTuple):
    """A row, by its number and source, and its question. Generated problems are numbered in their own order."""

    row: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One row and what is the matter with it; `other` is the row that it collides with. A `dominant` answer has no row."""

    kind: str
    reason: str
    at: Place | None
    other: Place | None = None


@dataclass(frozen=True, slots=True)
class DataReport:
    """Everything that `agon data check` found.

    `num_unique` counts the problems that are left without duplicates and conflicts, `splits` those of them that the settings keep.
    `top_answer` is the most frequent answer of the unique problems.
    """

    task: str
    sources: tuple[str, ...]
    num_rows: int
    num_problems: int
    num_unique: int
    splits: Mapping[str, int]
    num_filtered: int
    num_guessable: int
    top_answer: tuple[str, int]
    longest: int
    against: Mapping[str, int] = field(default_factory=dict[str, int])
    findings: tuple[Finding, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each kind, in the order of `FAULTS` and `NOTES`."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in (*FAULTS, *NOTES) if found[kind]}

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that makes the data unfit."""
        return not any(finding.kind in FAULTS for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        answer, count = self.top_answer
        return {
            "task": self.task,
            "sources": list(self.sources),
            "is_clean": self.is_clean,
            "rows": self.num_rows,
            "problems": self.num_problems,
            "unique": self.num_unique,
            "splits": dict(self.splits),
            "filtered": self.num_filtered,
            "guessable": {"count": self.num_guessable, "share": self._share(self.num_guessable)},
            "top_answer": {"answer": answer, "count": count, "share": self._share(count)},
            "longest_question_characters": self.longest,
            "against": dict(self.against),
            "counts": self.counts,
            "findings": [asdict(finding) | _places(finding) for finding in self.findings],
        }

    def _share(self, count: int) -> float:
        return count / self.num_unique if self.num_unique else 0.0


def _places(finding: Finding) -> dict[str, Any]:
    return {"at": finding.at and finding.at._asdict(), "other": finding.other and finding.other._asdict()}
