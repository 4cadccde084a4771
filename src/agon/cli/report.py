"""`agon report`: one HTML file from run folders, with a comparison where there are several."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from agon.cli.common import Subcommands, add_comparison, tell, text


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
    from agon.comparison.report import write_compared

    runs = [Path(run) for run in options.runs]
    out = Path(options.out) if options.out else runs[0] / "report.html"
    write_compared(runs, out, say=tell, against=options.against, task=options.task, split=options.split)
    print(f"report: {out}")
    return 0
