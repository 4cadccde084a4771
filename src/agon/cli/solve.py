"""`agon solve`: let a trained pair solve one problem."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.common import Subcommands, add_json, print_json, tell, text

if TYPE_CHECKING:
    from agon.serve.records import Event


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "solve",
        help="let a trained pair solve one problem",
        description="Show draft, summary, challenge and answer of one problem while they are written.",
    )
    parser.add_argument("subject", type=text, metavar="RUN", help="a run folder")
    parser.add_argument("problem", metavar="PROBLEM", help="the problem's text; for the quickstart: '12 7 5 = 24'")
    parser.add_argument("--direction", choices=("a-b", "b-a"), help="who drafts (default: chosen on dev)")
    parser.add_argument("--gold", help="the right answer, if it is to be checked")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sampling")
    add_json(parser)
    parser.set_defaults(run=solve)


def solve(options: Namespace) -> int:
    """`agon solve`."""
    from agon.runs.parent import default_run
    from agon.serve.access import Access
    from agon.serve.run import open_run_service
    from agon.serve.solve import job_of, solved_json
    from agon.serve.solve import solve as play_one

    with open_run_service(default_run(Path(options.subject)), Access(), direction=options.direction) as opened:
        job = job_of(opened.service.offer, options.problem, gold=options.gold, seed=options.seed)
        for note in opened.notes:
            tell(note)
        match = play_one(opened.service, job, _unseen if options.json else _printer())
    if options.json:
        print_json(solved_json(match, job))
    return 0


def _unseen(event: Event) -> None:
    pass


def _printer() -> Callable[[Event], None]:
    from agon.cli.table import console
    from agon.cli.watch import MatchPrinter

    return MatchPrinter(console()).take
