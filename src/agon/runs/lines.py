"""Files of one JSON object a line (metrics.jsonl, timings.jsonl, alarms.jsonl): append, read back, cut to a number of steps."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.errors import DivergedError, RunError
from agon.metrics import check_names
from agon.runs.atomic import atomic_write_bytes, input_errors, open_to_append, output_errors, sha256_of
from agon.runs.checkpoints import list_checkpoints, recorded_lines
from agon.runs.reading import parse_json

METRICS_FILE = "metrics.jsonl"
TIMINGS_FILE = "timings.jsonl"
ALARMS_FILE = "alarms.jsonl"


def append_line(path: Path, row: Mapping[str, Any]) -> None:
    """Append one object as a line that a killed process cannot leave half-buffered.

    Raises:
        RunError: the disk is full, or the file cannot be written or is a link.
    """
    line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with output_errors(path), open_to_append(path) as stream:
        written = stream.write(line)
        while written < len(line):
            written += stream.write(line[written:])


def check_metrics(row: Mapping[str, Any]) -> None:
    """Check a metrics line: registered names, a step, and no number that is not finite (null says "no value").

    Raises:
        ValueError: an unregistered name or no step.
        DivergedError: a number is NaN or infinite.
    """
    check_names(row)
    if "step" not in row:
        raise ValueError(f"a metrics line needs its step; it has {', '.join(row)}")
    for name, value in row.items():
        for number in value.values() if isinstance(value, Mapping) else (value,):
            if isinstance(number, float) and not math.isfinite(number):
                raise DivergedError(
                    f"{name} is {number} at step {row['step']}: lower train.learning_rate or train.max_grad_norm"
                )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file line by line. A last line without its newline is still being written and is left out.

    Raises:
        RunError: a line is not a JSON object; names its number.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            row, reason = parse_json(line), ""
        except ValueError as error:
            row, reason = None, f" ({error})"
        if not isinstance(row, dict):
            raise RunError(
                f"{path}, line {number} is not a JSON object{reason}: restore the file from a copy, or train again"
            )
        rows.append(row)
    return rows


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return a run's metrics, one mapping a step.

    Raises:
        RunError: the file is damaged, or no longer what it was when the newest checkpoint was saved.
    """
    require_recorded(run, METRICS_FILE)
    return _steps(run / METRICS_FILE)


def read_timings(run: Path) -> list[dict[str, Any]]:
    """Return a run's wall-clock timings, one mapping a step."""
    rows = _steps(run / TIMINGS_FILE)
    for number, row in enumerate(rows, start=1):
        if not all(isinstance(value, int | float) for value in row.values() if value is not None):
            raise RunError(f"{run / TIMINGS_FILE}, line {number} holds what is no number: remove the line, or the file")
    return rows


def read_alarms(run: Path) -> list[dict[str, Any]]:
    """Return the alarms of a run, in the order they sounded.

    Raises:
        RunError: the file is damaged, or no longer what it was when the newest checkpoint was saved.
    """
    require_recorded(run, ALARMS_FILE)
    return read_lines(run / ALARMS_FILE)


def record_lines(run: Path) -> dict[str, dict[str, str | int]]:
    """Return size and sha256 of metrics and alarms as they are, for the checkpoint that is saved now."""
    found = {name: run / name for name in (METRICS_FILE, ALARMS_FILE)}
    return {
        name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for name, path in found.items()
        if path.is_file()
    }


def require_recorded(run: Path, name: str, checkpoint: Path | None = None) -> None:
    """Check that metrics or alarms still begin with what they were when a checkpoint (the newest, if none is given) was saved.

    A checkpoint from before they were recorded, and one whose marker cannot be read, vouch for nothing.

    Raises:
        RunError: they do not.
    """
    saved = checkpoint or next(reversed(list_checkpoints(run)), None)
    recorded = None if saved is None else recorded_lines(saved).get(name)
    if saved is None or recorded is None:
        return
    data = b"".join(_whole_lines(run / name))[: recorded.num_bytes]
    if len(data) < recorded.num_bytes or hashlib.sha256(data).hexdigest() != recorded.sha256:
        raise RunError(
            f"{run / name} is not what it was when checkpoint {saved.name} was saved: restore it from a copy, or remove that checkpoint "
            "to go on from one before it"
        )


def truncate_metrics(run: Path, completed_steps: int) -> None:
    """Cut metrics.jsonl to the lines of the first `completed_steps` steps, and drop a half-written last line.

    The lines that stay are the bytes that were written, so the file continues as if nothing had happened.

    Raises:
        RunError: the file has fewer lines than steps were completed.
    """
    lines = _whole_lines(run / METRICS_FILE)
    if len(lines) < completed_steps:
        raise RunError(
            f"{run / METRICS_FILE} has {len(lines)} lines, but the checkpoint was saved after {completed_steps} steps: "
            "restore the file from a copy, or train again into another folder"
        )
    _keep(run / METRICS_FILE, lines[:completed_steps])


def truncate_timings(run: Path, completed_steps: int) -> None:
    """Drop the timings of later steps, and those that cannot be read. They are written last, and decide nothing."""
    _keep(run / TIMINGS_FILE, [line for line in _whole_lines(run / TIMINGS_FILE) if _is_before(line, completed_steps)])


def truncate_alarms(run: Path, completed_steps: int) -> None:
    """Drop the alarms of later steps. Most steps have none."""
    _drop_later(run / ALARMS_FILE, completed_steps)


def sync_file(path: Path) -> None:
    """Flush a file that is appended to onto the disk, if it exists."""
    if path.exists():
        with output_errors(path), path.open("rb") as stream:
            os.fsync(stream.fileno())


def _steps(path: Path) -> list[dict[str, Any]]:
    rows = read_lines(path)
    for number, row in enumerate(rows, start=1):
        if type(row.get("step")) is not int:
            raise RunError(f"{path}, line {number} names no step: restore the file from a copy, or train again")
    return rows


def _drop_later(path: Path, completed_steps: int) -> None:
    lines, rows = _whole_lines(path), read_lines(path)
    _keep(path, [line for line, row in zip(lines, rows, strict=True) if row.get("step", -1) < completed_steps])


def _is_before(line: bytes, completed_steps: int) -> bool:
    try:
        step = parse_json(line)["step"]
    except (ValueError, KeyError, TypeError):
        return False
    return type(step) is int and step < completed_steps


def _keep(path: Path, lines: list[bytes]) -> None:
    content = b"".join(lines)
    if path.exists() and path.read_bytes() != content:
        atomic_write_bytes(path, content)


def _whole_lines(path: Path) -> list[bytes]:
    with input_errors(path):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return []
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
