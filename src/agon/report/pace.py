"""Speed, and where the time of a run's steps went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agon.metrics import PACE
from agon.report.collect import Run

PARTS = ("generate", "sync", "verify_wait", "learn", "save", "other")
"""Parts of a step, as timings.jsonl names them before the unit; together they are the whole step."""


@dataclass(frozen=True, slots=True)
class PaceRow:
    """Where the time of a run's steps went, all steps together. Older runs did not note everything: None."""

    name: str
    seconds: float | None
    parts: Mapping[str, float | None]
    idle: float | None
    sampling_speed: float | None
    step_speed: float | None
    learning_speed: float | None


def pace_rows(runs: Sequence[Run]) -> list[PaceRow]:
    """Return a row for every run that has timings."""
    return [_pace_row(run) for run in runs if run.timings]


def untimed_steps(runs: Sequence[Run]) -> list[str]:
    """Name the runs that have steps without timings, with how many: sums of their times are too small."""
    found: list[str] = []
    for run in runs:
        timed = {row["step"] for row in run.timings}
        missing = sum(row["step"] not in timed for row in run.metrics)
        if missing:
            found.append(f"{run.name} ({missing} of {len(run.metrics)})")
    return found


def pace_of_steps(run: Run) -> list[dict[str, Any]]:
    """Return the numbers of `agon.metrics.PACE` step by step, those that can be worked out."""
    learned = _learned_tokens(run)
    return [{"step": row["step"], **_pace(row, learned.get(row["step"]))} for row in run.timings if "step" in row]


def _pace_row(run: Run) -> PaceRow:
    learned = _learned_tokens(run)
    names = {name for row in run.timings for name in row}
    total = {name: sum(row.get(name) or 0.0 for row in run.timings) for name in names}
    pace = _pace(total, sum(learned.get(row["step"], 0.0) for row in run.timings if "step" in row))
    return PaceRow(
        name=run.name,
        seconds=total["total_s"] / len(run.timings) if "total_s" in total else None,
        parts={part: _ratio(total.get(f"{part}_s"), total.get("total_s")) for part in PARTS},
        idle=pace.get("pace/idle_share"),
        sampling_speed=pace.get("pace/sampling_speed"),
        step_speed=pace.get("pace/step_speed"),
        learning_speed=pace.get("pace/learning_speed"),
    )


def _pace(row: Mapping[str, Any], learned: float | None) -> dict[str, float]:
    """Work out speeds and shares of one step's seconds and tokens, or of many steps' sums."""
    total, sampled = row.get("total_s"), row.get("sampled_tokens")
    numbers = {f"{part}_share": _ratio(row.get(f"{part}_s"), total) for part in PARTS}
    generate, learn = numbers["generate_share"], numbers["learn_share"]
    # Where learning was not timed by itself, nothing can be said of the rest.
    numbers["idle_share"] = (
        None if generate is None or learn is None or "other_s" not in row else 1.0 - generate - learn
    )
    numbers["sampling_speed"] = _ratio(sampled, row.get("generate_s"))
    numbers["step_speed"] = _ratio(sampled, total)
    numbers["learning_speed"] = _ratio(learned, row.get("learn_s")) if "other_s" in row else None
    named = {f"pace/{name}": value for name, value in numbers.items() if value is not None}
    return {name: value for name, value in named.items() if name in PACE}


def _learned_tokens(run: Run) -> dict[int, float]:
    """Return the tokens learned from in each step, both streams together."""
    names = ("draft/tokens_learned", "challenge/tokens_learned")
    return {row["step"]: float(sum(row.get(name) or 0 for name in names)) for row in run.metrics if "step" in row}


def _ratio(value: Any, by: Any) -> float | None:
    return value / by if isinstance(value, int | float) and isinstance(by, int | float) and by else None
