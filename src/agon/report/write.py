"""Run folders in, one self-contained HTML file out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.report.collect import collect
from agon.report.page import render
from agon.runs import atomic_write_text, output_errors


def write_report(
    paths: Sequence[Path], out: Path, *, comparison: Mapping[str, Any] | None = None, is_narrowed: bool = False
) -> None:
    """Write one HTML file about runs, or folders of runs, that needs no network and no other file.

    `comparison` is the tree of a comparison of the same paths as plain JSON; a page about several runs then shows them side by side.
    `is_narrowed` leaves out evaluations on another task or split than the compared one, and the page says how many.
    The same run folders give the same bytes.

    Raises:
        RunError: a path is no run folder, a file in one is damaged, or `out` cannot be written to.
    """
    page = render(collect(paths), comparison, is_narrowed=is_narrowed)
    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(out, page)
