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
"""Largest size of all matches in the page, shared evenly by the evaluations."""
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


def evaluation_shelves(collected: Collected) -> list[Shelf | None]:
    """Return a shelf for every evaluation; None where no matches were kept.

    Raises:
        RunError: a file of matches is damaged.
    """
    budget = _bytes_each(collected)
    return [
        None
        if evaluation.matches_path is None
        else fill_shelf(evaluation.label, "evaluation", evaluation.matches(), max_matches=MAX_MATCHES, max_bytes=budget)
        for evaluation in collected.evaluations
    ]


def training_shelves(collected: Collected) -> list[Shelf]:
    """Return a shelf for the last saved training step of every run that has one."""
    shelves: list[Shelf] = []
    for run in collected.runs:
        newest = last_training_matches(run)
        if newest is not None:
            step, path = newest
            title = f"{run.name}: training, step {step}"
            shelves.append(
                fill_shelf(
                    title,
                    "training",
                    read_matches(path),
                    max_matches=MAX_TRAINING_MATCHES,
                    max_bytes=_bytes_each(collected),
                )
            )
    return shelves


def fill_shelf(
    title: str, kind: Literal["evaluation", "training"], matches: Iterable[Match], *, max_matches: int, max_bytes: int
) -> Shelf:
    """Count every match, and keep the first ones up to both limits."""
    kept: list[dict[str, Any]] = []
    prompts: dict[str, str] = {}
    counter: Counter[str] = Counter()
    room = max_bytes
    for match in matches:
        cell = cell_of(match)
        counter[cell] += 1
        if len(kept) >= max_matches or room <= 0:
            continue
        entry = _match_entry(match, cell)
        room -= len(json.dumps(entry, ensure_ascii=False).encode(errors="replace"))
        if room > 0 or not kept:
            kept.append(entry)
        if not prompts:
            prompts = {attempt.role: shorten(attempt.prompt.text) for attempt in match.attempts}
    return Shelf(title, kind, kept, prompts, CellCounts.of(counter))


def shorten(text: str) -> str:
    """Return a text with its middle left out, and said so, where it is too long for the page."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out of this page …]\n{text[-half:]}"


def _bytes_each(collected: Collected) -> int:
    return MAX_BYTES // max(1, len(collected.evaluations) + len(collected.runs))


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
