"""`agon report`: one HTML file from run folders, with a comparison where there are several."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.common import Subcommands, add_comparison, text

if TYPE_CHECKING:
    from agon.comparison.records import Comparison


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "report",
        help="write one HTML file from run folders",
        description="Write one self-contained HTML file from run folders. Several runs are compared as `agon compare` does it.",
    )
    parser.add_argument(
        "runs", nargs="+", type=text, metavar="RUN", help="run folders, a matrix, or a quickstart's parent folder"
    )
    parser.add_argument(
        "--out", type=text, metavar="FILE", help="the HTML file (default: report.html in the first folder)"
    )
    add_comparison(parser)
    parser.set_defaults(run=report)


def report(options: Namespace) -> int:
    """`agon report`."""
    runs = [Path(run) for run in options.runs]
    out = Path(options.out) if options.out else runs[0] / "report.html"
    write_compared(runs, out, against=options.against, task=options.task, split=options.split)
    print(f"report: {out}")
    return 0


def write_compared(
    paths: Sequence[Path], out: Path, *, against: Sequence[str] = (), task: str | None = None, split: str | None = None
) -> Comparison | None:
    """Write the report of some folders, and return the comparison in it: None where there is one run, or nothing to compare.

    Raises:
        AgonError: how to compare was said, and it cannot be done so; or a path is no run folder.
    """
    from agon.report.write import write_report

    comparison = _comparison(paths, against=against, task=task, split=split)
    write_report(paths, out, comparison=None if comparison is None else comparison.to_json())
    return comparison


def _comparison(
    paths: Sequence[Path], *, against: Sequence[str], task: str | None, split: str | None
) -> Comparison | None:
    """Compare the runs where there are several. Runs that cannot be compared still have a page, which says so here."""
    from agon.errors import AgonError, ConfigError
    from agon.runs import child_runs

    is_asked = bool(against or task or split)
    if len({run.resolve() for path in paths for run in child_runs(path)}) < 2:
        if is_asked:
            raise ConfigError(
                "--against, --task and --split choose what is compared, but there is one run: give several"
            )
        return None
    from agon.comparison.compare import compare

    try:
        return compare(paths, against=against, task=task, split=split)
    except AgonError as error:
        if is_asked:
            raise
        print(f"agon: the report compares nothing: {error}", file=sys.stderr)
        return None
