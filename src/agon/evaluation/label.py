"""What a result is called that nobody named."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from agon.evaluation.load import Opened
from agon.records import Direction, Lineup
from agon.runs.checkpoints import rounded_to
from agon.runs.evaluations import MAX_LABEL
from agon.tasks.data import TaskData


def default_label(
    opened: Opened,
    lineup: Lineup,
    *,
    protocol: str,
    direction: Direction | None,
    split: str,
    has_doubled_cap: bool,
) -> str:
    """Name a result by everything that tells it from another of the same run, so that none replaces another unasked."""
    own = opened.settings
    num_drafts = len(lineup.drafters)
    parts = [
        split,
        protocol,
        direction or "-".join((name or "base").lower() for name in dict.fromkeys(lineup.drafters)),
        f"k{num_drafts}" if num_drafts > 1 and lineup.stands != "second" else "",
        f"l{lineup.layers}" if lineup.layers > 1 else "",
        f"{lineup.doubt}-below{lineup.threshold:.4g}" if lineup.doubt is not None else "",
        "doubled-cap" if has_doubled_cap else "",
        # Another task whose answers are programs has no other style: its name says enough.
        *(f"{name}-{value}" for name, value in opened.changed.items() if (name, value) != ("answer_style", "code")),
        f"x{own.evaluation.samples}" if own.evaluation.samples > 1 else "",
        (rounded_to(opened.checkpoint) or "") if opened.checkpoint is not None and _has_adapter(lineup) else "",
        opened.checkpoint.name if opened.is_chosen_checkpoint and opened.checkpoint is not None else "",
    ]
    played = "-".join(part for part in parts if part)
    # Of a long name the end of the task gives way: after hours of measuring there is no other name to ask for.
    label = f"{_task_name(opened.task)[: max(1, MAX_LABEL - len(played) - 1)]}-{played}"
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 9]}-{_hash(label)}"


def _has_adapter(lineup: Lineup) -> bool:
    return any(player is not None for player in (*lineup.drafters, lineup.challenger))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _task_name(task: TaskData) -> str:
    """Return the part of a task's name, or of its data source's where it has none, that can stand in a file name."""
    if task.name != "custom":
        return re.sub(r"[^A-Za-z0-9._+\-]", "_", task.name)
    return re.sub(r"[^A-Za-z0-9._]+", "_", Path(task.source).name)[:40].strip("._") or "custom"
