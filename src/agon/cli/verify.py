"""`agon verify`: what the programs that check answers decide, on one answer, on labelled rows, on code and on a whole run."""

from __future__ import annotations

from typing import Any

from agon.cli import verify_answers, verify_code, verify_run
from agon.cli.common import Subcommands
from agon.cli.verify_options import EXIT_CODES


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "verify",
        help="check answers, programs, or a run's verdicts",
        description=f"Ask the programs that check answers. {EXIT_CODES}",
    )
    kinds: Any = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    verify_answers.add_parsers(kinds)
    verify_code.add_parser(kinds)
    verify_run.add_parser(kinds)
