"""`agon solve`: let a trained pair solve one problem."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from agon.cli.common import Subcommands, add_json, print_json, text


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "solve",
        help="let a trained pair solve one problem",
        description="Show draft, summary, challenge and answer of one problem.",
    )
    parser.add_argument("subject", type=text, metavar="RUN", help="a run folder")
    parser.add_argument("problem", metavar="PROBLEM", help="the problem's text; for the quickstart: '12 7 5 = 25'")
    parser.add_argument("--direction", choices=("a-b", "b-a"), help="who drafts (default: a-b)")
    parser.add_argument("--gold", help="the right answer, if it is to be checked")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling")
    add_json(parser)
    parser.set_defaults(run=solve)


def solve(options: Namespace) -> int:
    """`agon solve`."""
    from agon.cli.table import print_match
    from agon.evaluation.load import open_run
    from agon.evaluation.solve import solve as play_one
    from agon.evaluation.solve import solved_json
    from agon.runs.parent import default_run

    opened = open_run(default_run(Path(options.subject)))
    for note in opened.notes:
        print(f"agon: {note}", file=sys.stderr)
    with opened.session:
        match = play_one(opened, options.problem, gold=options.gold, direction=options.direction, seed=options.seed)
    if options.json:
        print_json(solved_json(match))
    else:
        print_match(match)
    return 0
