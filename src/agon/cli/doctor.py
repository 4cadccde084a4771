"""`agon doctor`: what this machine can run, or what differs between two runs."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.common import EXIT_FAILED, Subcommands, add_json, print_json, text
from agon.errors import ConfigError

if TYPE_CHECKING:
    from agon.audit.checkup import Checkup
    from agon.audit.differences import Comparison, Difference

_MARKS = {"ok": "ok", "missing": "-", "broken": "BROKEN"}
_VALUE_WIDTH = 60


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "doctor",
        help="say what this machine can run, or what differs between two runs",
        description="Say what this machine can run, and why not. With two run folders: which settings, versions and hashes of base and "
        "data differ. Exit code: 0, or 1 if agon cannot train here at all.",
    )
    parser.add_argument("runs", nargs="*", type=text, metavar="RUN", help="two run folders to compare")
    parser.add_argument("--network", action="store_true", help="also ask whether the Hub can be reached")
    add_json(parser)
    parser.set_defaults(run=doctor)


def doctor(options: Namespace) -> int:
    """`agon doctor`."""
    if options.runs:
        return _compare(options)
    from agon.audit.checkup import examine

    checkup = examine(Path(), with_network=options.network)
    if options.json:
        print_json(checkup.to_json())
    else:
        _print_checkup(checkup)
    return 0 if checkup.can_train else EXIT_FAILED


def _compare(options: Namespace) -> int:
    from agon.audit.differences import compare_runs
    from agon.runs.parent import default_run

    if len(options.runs) != 2:
        raise ConfigError(f"{len(options.runs)} run folders were given: give two to compare them, or none")
    if options.network:
        raise ConfigError("--network has no meaning where two runs are compared: leave it out")
    first, second = (default_run(Path(run)) for run in options.runs)
    comparison = compare_runs(first, second)
    if options.json:
        print_json({"runs": [str(first), str(second)], "same": comparison.is_same, **comparison.to_json()})
    else:
        _print_comparison(comparison, first, second)
    return 0


def _print_checkup(checkup: Checkup) -> None:
    from agon.cli.verdicts import shown

    width = max(len(finding.name) for finding in checkup.findings)
    group = None
    for finding in checkup.findings:
        if finding.group != group:
            print(f"{'' if group is None else chr(10)}{finding.group}")
            group = finding.group
        remedy = f"  -> {finding.remedy}" if finding.remedy else ""
        print(f"  {_MARKS[finding.state]:6}  {finding.name:{width}}  {shown(finding.detail, 200)}{remedy}")
    print("\nwhat can be done here")
    width = max(len(ability.name) for ability in checkup.abilities)
    for ability in checkup.abilities:
        mark = "yes" if ability.is_there else "no"
        reason = f"  {shown(ability.reason, 200)}" if ability.reason else ""
        print(f"  {mark:6}  {ability.name:{width}}{reason}".rstrip())


def _print_comparison(comparison: Comparison, first: Path, second: Path) -> None:
    print(f"first   {first}\nsecond  {second}")
    if comparison.is_same:
        print("nothing differs: same settings, versions, base and data")
    for title, differences in comparison._asdict().items():
        if differences:
            print(f"\n{title}")
            _print_differences(differences)


def _print_differences(differences: Sequence[Difference]) -> None:
    from agon.cli.verdicts import print_columns, shown

    print_columns(
        [
            ("", "first", "second"),
            *((shown(item.name), _value(item.first), _value(item.second)) for item in differences),
        ]
    )


def _value(value: Any) -> str:
    from agon.audit.differences import ABSENT
    from agon.cli.verdicts import shown

    text = repr(value) if value is ABSENT else value if isinstance(value, str) else json.dumps(value)
    return shown(text, _VALUE_WIDTH)
