r"""Problems that stand in two places: the same text in another spelling, or a long run of the same words.

Two questions are the *same text* if they differ in nothing but case, spacing, unicode form and LaTeX style (`tasks.rows.content_id`).
They are *near copies* if they have 13 words in a row in common. Words are what is left without punctuation, LaTeX delimiters and the
commands that only set type (`\left`, `\text`, `\frac`), so `$\dfrac{1}{2}$` and `\(1/2\)` are the same two words.

A run of words that stands in several problems of a side is a phrase ("where m and n are relatively prime positive integers, find"),
and alone makes no near copy: at least half of the shorter question's runs must then be in common. So a changed number or name hides
a copy only where it leaves no 13 words untouched, and a question of fewer than 13 words is found as the same text alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

RUN_WORDS = 13
# A run in more problems of one side than this is a phrase.
_MOST_HOLDERS = 2
_PHRASE_SHARE = 0.5

_TYPESETTING = re.compile(
    r"\\(?:left|right|displaystyle|q?quad|[dtc]?frac|text(?:bf|it|rm)?|mathrm|mathbf|mathbb|operatorname|boxed)(?![a-z])"
)
# Drawings are code in a language of few words.
_DRAWING = re.compile(r"\[asy\].*?\[/asy\]", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")

Run = int


class NearCopy(NamedTuple):
    """A pair of problems by their positions, and the share of the shorter one's runs that both have."""

    first: int
    second: int
    share: float


def words_of(question: str) -> list[str]:
    """Return the words of a question, without punctuation and typesetting."""
    text = unicodedata.normalize("NFKC", question).casefold()
    return _WORD.findall(_TYPESETTING.sub(" ", _DRAWING.sub(" ", text)))


def runs_of(question: str) -> set[Run]:
    """Return a number for every run of 13 words in a question."""
    words = words_of(question)
    # Python's own hash of the words is 64 bits wide: among ten million runs a chance meeting has odds of one in 400,000.
    return {hash(tuple(words[start : start + RUN_WORDS])) for start in range(len(words) - RUN_WORDS + 1)}


class RunIndex:
    """The runs of a list of questions, to find those of another list in."""

    def __init__(self, questions: Iterable[str]) -> None:
        self._sizes: list[int] = []
        self._holders: dict[Run, list[int]] = defaultdict(list)
        for position, question in enumerate(questions):
            runs = runs_of(question)
            self._sizes.append(len(runs))
            for run in runs:
                self._holders[run].append(position)

    def near_copies(self, questions: Iterable[str]) -> list[NearCopy]:
        """Return the pairs (question, indexed question) that are near copies, in the order of the questions.

        Each question is told with the one indexed question that it has most in common with.
        """
        # Only runs that the index holds are kept: the questions may be many more than those in the index.
        known: list[tuple[int, set[Run], int]] = []
        for position, question in enumerate(questions):
            runs = runs_of(question)
            if common := runs & self._holders.keys():
                known.append((position, common, len(runs)))
        holders_here = Counter(run for _, runs, _ in known for run in runs)
        found = (self._best(position, runs, size, holders_here) for position, runs, size in known)
        return [copy for copy in found if copy is not None]

    def _best(self, position: int, runs: set[Run], size: int, holders_here: Counter[Run]) -> NearCopy | None:
        common: Counter[int] = Counter()
        rare: set[int] = set()
        for run in runs:
            holders = self._holders[run]
            common.update(holders)
            if max(len(holders), holders_here[run]) <= _MOST_HOLDERS:
                rare.update(holders)
        copies = [
            NearCopy(position, other, count / min(size, self._sizes[other]))
            for other, count in common.items()
            if other in rare or count / min(size, self._sizes[other]) >= _PHRASE_SHARE
        ]
        return max(copies, key=lambda copy: (copy.share, -copy.second), default=None)
