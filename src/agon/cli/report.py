"""`agon report`: one HTML file from run folders."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from agon.cli.common import Subcommands, text


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "report",
        help="write one HTML file from run folders",
        description="Write one self-contained HTML file from run folders.",
    )
    parser.add_argument(
        "runs", nargs="+", type=text, metavar="RUN", help="run folders, or a quickstart's parent folder"
    )
    parser.add_argument(
        "--out", type=text, metavar="FILE", help="the HTML file (default: report.html in the first folder)"
    )
    parser.set_defaults(run=report)


def report(options: Namespace) -> int:
    """`agon report`."""
    from agon.report.write import write_report

    runs = [Path(run) for run in options.runs]
    out = Path(options.out) if options.out else runs[0] / "report.html"
    write_report(runs, out)
    print(f"report: {out}")
    return 0
