"""The matches that the page lets one read, as JSON of bounded size."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from agon.records import Attempt, Match, Summary
from agon.report.collect import Collected, last_training_matches
from agon.report.exchange import CellCounts, cell_of
from agon.runs import read_matches

MAX_MATCHES = 300
"""Most matches of one evaluation in the page."""
MAX_CHARACTERS = 20_000
"""Longest text of a stage in the page; what is longer loses its middle."""
MAX_BYTES = 16_000_000
"""Largest size of all matches in the page, shared by the evaluations."""
MAX_TRAINING_MATCHES = 64
"""Most matches of a run's last saved training step in the page."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The matches of one evaluation: those in the page, how many there are in all, and every cell's count over all."""

    title: str
    kind: Literal["evaluation", "training"]
    matches: list[dict[str, Any]]
    prompts: dict[str, str]
    counts: CellCounts
    num_bytes: int

    @property
    def is_cut(self) -> bool:
        """Whether the page holds fewer matches than there are."""
        return len(self.matches) < self.counts.total

    def to_json(self) -> dict[str, Any]:
        """Turn the shelf into plain JSON types."""
        return {
            "title": self.title,
            "kind": self.kind,
            "matches": self.matches,
            "prompts": self.prompts,
            "total": self.counts.total,
            "counts": dict(self.counts.counts),
        }


@dataclass(frozen=True, slots=True)
class Shelves:
    """All matches of a report: a shelf for every evaluation (None where no matches were kept), and one for each run's training."""

    evaluations: tuple[Shelf | None, ...]
    training: tuple[Shelf, ...]

    @property
    def all(self) -> tuple[Shelf, ...]:
        """The shelves in the order of the page."""
        return (*(shelf for shelf in self.evaluations if shelf is not None), *self.training)


def fill_shelves(collected: Collected) -> Shelves:
    """Read the matches of every evaluation, and of the last saved training step of every run.

    Raises:
        RunError: a file of matches is damaged.
    """
    steps = [(run, newest) for run in collected.runs if (newest := last_training_matches(run)) is not None]
    left = len(steps) + sum(evaluation.matches_path is not None for evaluation in collected.evaluations)
    room = MAX_BYTES
    training: list[Shelf] = []
    evaluations: list[Shelf | None] = []
    # Each takes an equal share of what is left; training first, since it is short and leaves most of its share to the others.
    for run, (step, path) in steps:
        title = f"{run.name}: training, step {step}"
        shelf = fill_shelf(
            title, "training", read_matches(path), max_matches=MAX_TRAINING_MATCHES, max_bytes=room // left
        )
        training.append(shelf)
        room, left = room - shelf.num_bytes, left - 1
    for evaluation in collected.evaluations:
        if evaluation.matches_path is None:
            evaluations.append(None)
            continue
        matches = evaluation.matches()
        shelf = fill_shelf(evaluation.name, "evaluation", matches, max_matches=MAX_MATCHES, max_bytes=room // left)
        evaluations.append(shelf)
        room, left = room - shelf.num_bytes, left - 1
    return Shelves(tuple(evaluations), tuple(training))


def fill_shelf(
    title: str, kind: Literal["evaluation", "training"], matches: Iterable[Match], *, max_matches: int, max_bytes: int
) -> Shelf:
    """Count every match, and keep the first ones up to both limits."""
    kept: list[dict[str, Any]] = []
    prompts: dict[str, str] = {}
    counter: Counter[str] = Counter()
    num_bytes = 0
    is_full = False
    for match in matches:
        cell = cell_of(match)
        counter[cell] += 1
        if not is_full and len(kept) < max_matches:
            entry = _match_entry(match, cell)
            size = len(json.dumps(entry, ensure_ascii=False).encode(errors="replace"))
            is_full = num_bytes + size > max_bytes
            if not is_full:
                kept.append(entry)
                num_bytes += size
        if not prompts:
            prompts = {attempt.role: shorten(attempt.prompt.text) for attempt in match.attempts}
    return Shelf(title, kind, kept, prompts, CellCounts.of(counter), num_bytes)


def shorten(text: str) -> str:
    """Return a text with its middle left out, and said so, where it is too long for the page."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out of this page …]\n{text[-half:]}"


def _match_entry(match: Match, cell: str) -> dict[str, Any]:
    return {
        "id": match.problem.id,
        "sample": match.sample,
        "cell": cell,
        "question": shorten(match.problem.question),
        "gold": match.problem.gold,
        "level": match.problem.level,
        "drafts": [_attempt_entry(draft) for draft in match.drafts],
        "summaries": [_summary_entry(summary) for summary in match.summaries],
        "challenge": None if match.challenge is None else _attempt_entry(match.challenge),
        "chosen": match.chosen,
    }


def _attempt_entry(attempt: Attempt) -> dict[str, Any]:
    return {
        "adapter": attempt.adapter or "base",
        "text": shorten(attempt.completion.text),
        "tokens": attempt.completion.num_tokens,
        "prompt_tokens": len(attempt.prompt.token_ids),
        "truncated": attempt.completion.is_truncated,
        "outcome": attempt.verdict.outcome,
        "answer": attempt.verdict.answer,
        "reason": attempt.verdict.reason,
        "format": attempt.format_score,
    }


def _summary_entry(summary: Summary) -> dict[str, Any]:
    return {
        "text": shorten(summary.text),
        "tokens": summary.num_tokens,
        "withheld": summary.num_withheld,
        "leak": summary.has_leak,
        "empty": summary.is_empty,
        "cut": summary.is_cut,
    }
