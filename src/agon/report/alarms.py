"""The alarms that sounded while the runs of a report trained, as rows of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agon.report.collect import Run


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """An alarm that sounded while a run trained. `is_stop` says that it stops a run that has steps left."""

    run: str
    name: str
    about: str
    since: int | None
    step: int | None
    is_stop: bool
    message: str


def alarm_rows(runs: Sequence[Run]) -> list[AlarmRow]:
    """Return the alarms of every run, in the order they sounded; those that stop a run first."""
    rows = [
        AlarmRow(
            run=run.name,
            name=str(alarm.get("name", "")),
            about=str(alarm.get("about", "")),
            since=_step(alarm.get("since")),
            step=_step(alarm.get("step")),
            is_stop=alarm.get("mode") == "stop",
            message=str(alarm.get("message", "")),
        )
        for run in runs
        for alarm in run.alarms
    ]
    return sorted(rows, key=lambda row: not row.is_stop)


def _step(value: Any) -> int | None:
    return value if isinstance(value, int) else None
