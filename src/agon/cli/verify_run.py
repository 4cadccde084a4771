"""`agon verify run`: a run's stored completions checked again."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.common import EXIT_FAILED, Subcommands, add_json, print_json, text
from agon.cli.verify_options import EXIT_CODES, add_limits, verifier_overrides

if TYPE_CHECKING:
    from agon.audit.stored import Audit

_EXAMPLES = 3
_SLOWEST = 5
# What is shown as 0.000 s is slow in no sense.
_SHORTEST_S = 0.0005


def add_parser(kinds: Subcommands) -> None:
    """Add the command."""
    parser = kinds.add_parser(
        "run",
        help="check a run's stored completions again",
        description="Check every completion stored in a run folder (or in each run of a parent folder) again, with the limits of the "
        "run's own settings. Says what changed, how often each outcome occurs, and which checks take longest. Nothing in the folder is "
        f"changed. {EXIT_CODES}",
    )
    parser.add_argument("subject", type=text, metavar="RUN", help="a run folder, or a quickstart's parent folder")
    parser.add_argument(
        "--step",
        type=int,
        action="append",
        default=[],
        metavar="STEP",
        help="only the matches of this training step; steps count from 0, and not all are stored: those that train.save_matches_every (10) "
        "divides, and the last",
    )
    parser.add_argument(
        "--label", type=text, action="append", default=[], metavar="NAME", help="only the matches of this evaluation"
    )
    parser.add_argument("--all", action="store_true", help=f"list every change, not {_EXAMPLES} of each kind")
    add_limits(parser, "timeout_s", "code_timeout_s")
    add_json(parser)
    parser.set_defaults(run=verify_run)


def verify_run(options: Namespace) -> int:
    """`agon verify run`."""
    from agon.audit.stored import Wanted, audit_run
    from agon.cli.progress import ChecksProgress

    with ChecksProgress("completions") as progress:
        audit = audit_run(
            Path(options.subject),
            wanted=Wanted(options.step, options.label),
            overrides=verifier_overrides(options),
            num_examples=None if options.all else _EXAMPLES,
            progress=progress.update,
        )
    if options.json:
        print_json(audit.to_json())
    else:
        _print_audit(audit)
    return EXIT_FAILED if audit.damaged or audit.now["error"] else 0


def _print_audit(audit: Audit) -> None:
    from agon.cli.verdicts import print_table, shown
    from agon.records import OUTCOMES

    print(
        f"{audit.num_changed} of {audit.num_checked} stored completions are judged otherwise "
        f"({audit.num_files} files of {len(audit.runs)} run{'s' if len(audit.runs) > 1 else ''})"
    )
    rows = [(name, audit.before[name], audit.now[name]) for name in OUTCOMES if audit.before[name] or audit.now[name]]
    print_table([("outcome", "stored", "now"), *rows])
    report = audit.to_json()
    for change in report["changes"]:
        print(f"\n{change['from']} -> {change['to']}: {change['count']}")
        _print_places(change["examples"])
        if len(change["examples"]) < change["count"]:
            print(f"  … {change['count'] - len(change['examples'])} more (--all lists them)")
    slow = [place for place in report["slowest"][:_SLOWEST] if place["seconds"] >= _SHORTEST_S]
    print("\nslowest checks" if slow else "\nno check took a millisecond")
    _print_places(slow)
    for damage in audit.damaged:
        print(f"\ndamaged: {shown(damage.reason, None)}")


def _print_places(places: Sequence[Mapping[str, Any]]) -> None:
    from agon.cli.verdicts import shown

    for place in places:
        print(
            f"  {place['seconds']:.3f} s  {place['file']}, match {place['line']}, {place['stage']}: {place['now']}"
            f"{': ' if place['reason'] else ''}{shown(place['reason'])}"
        )
        print(f"      gold    {shown(place['gold'])}")
        print(f"      answer  {shown(place['answer'])}")
