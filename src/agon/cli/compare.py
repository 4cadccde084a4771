"""`agon compare`: runs side by side, with paired tests."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from agon.cli.common import Subcommands, add_comparison, add_json, print_json, text
from agon.records import PROTOCOLS


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "compare",
        help="compare runs on the same problems: one table and paired tests",
        description=(
            "Compare runs, parents of runs (a quickstart) or matrices (`agon ablate`) by their evaluations: accuracy over seeds with "
            "intervals, tokens of every stage, and every arm against its rivals on the same problems."
        ),
    )
    parser.add_argument("runs", nargs="+", type=text, metavar="RUN", help="run folders, parents of runs, or matrices")
    add_comparison(parser)
    parser.add_argument(
        "--protocol",
        action="append",
        default=[],
        choices=PROTOCOLS,
        metavar="PROTOCOL",
        help=f"compare in this protocol only; repeat for several ({', '.join(PROTOCOLS)})",
    )
    add_json(parser)
    parser.add_argument("--out", type=text, metavar="FILE", help="write the comparison as JSON into a file as well")
    parser.set_defaults(run=compare)


def compare(options: Namespace) -> int:
    """`agon compare`."""
    from agon.comparison.compare import compare as compare_runs
    from agon.runs.manifest import write_json

    comparison = compare_runs(
        [Path(run) for run in options.runs],
        against=options.against,
        protocols=options.protocol,
        task=options.task,
        split=options.split,
    )
    if options.out is not None:
        write_json(Path(options.out), comparison.to_json(), is_sealed=False)
    if options.json:
        print_json(comparison.to_json())
        return 0
    from agon.cli.comparison import print_comparison

    print_comparison(comparison)
    return 0
