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
        description="Say what this machine can run, and why not. With two run folders (or two quickstarts or matrices): in what "
        "settings, versions, base, data and machine they differ, and from which step on other numbers came out. Exit code: 0, or 1 if agon "
        "cannot train here at all.",
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
    from agon.runs.manifest import require_kind
    from agon.runs.parent import default_run

    if len(options.runs) != 2:
        raise ConfigError(f"{len(options.runs)} run folders were given: give two to compare them, or none")
    if options.network:
        raise ConfigError("--network has no meaning where two runs are compared: leave it out")
    paths = [Path(run) for run in options.runs]
    if all(require_kind(path, "run", "parent", "matrix") != "run" for path in paths):
        return _compare_several(*paths, is_json=options.json)
    first, second = (default_run(path) for path in paths)
    comparison = compare_runs(first, second)
    if options.json:
        print_json({"runs": [str(first), str(second)], "same": comparison.is_same, **comparison.to_json()})
    else:
        print(f"first   {first}\nsecond  {second}")
        _print_comparison(comparison)
    return 0


def _compare_several(first: Path, second: Path, *, is_json: bool) -> int:
    """Compare the runs of two quickstarts or matrices, each with that of the same name."""
    from agon.audit.differences import compare_runs, pair_runs

    pairs = pair_runs(first, second)
    both = {pair.name: compare_runs(pair.first, pair.second) for pair in pairs if pair.first and pair.second}
    alone = {
        "only_first": [pair.name for pair in pairs if pair.first and not pair.second],
        "only_second": [pair.name for pair in pairs if pair.second and not pair.first],
        "not_begun": [pair.name for pair in pairs if not pair.first and not pair.second],
    }
    is_same = (
        bool(both) and all(own.is_same for own in both.values()) and not (alone["only_first"] or alone["only_second"])
    )
    if is_json:
        compared = [{"run": name, "same": own.is_same, **own.to_json()} for name, own in both.items()]
        print_json({"folders": [str(first), str(second)], "same": is_same, "runs": compared, **alone})
        return 0
    print(f"first   {first}\nsecond  {second}")
    same = [name for name, own in both.items() if own.is_same]
    print(
        f"{len(same)} of {len(both)} runs that have begun in both do not differ"
        + (f": {', '.join(same)}" if same else "")
    )
    for what, names in alone.items():
        if names:
            print(f"{what.replace('_', ' ')}: {', '.join(names)}")
    for name, own in both.items():
        if not own.is_same:
            print(f"\n== {name}")
            _print_comparison(own)
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


def _print_comparison(comparison: Comparison) -> None:
    for title, differences in {**comparison.causes, "results": comparison.results}.items():
        if differences:
            print(f"\n{title}")
            _print_differences(differences)
    has_causes = any(comparison.causes.values())
    adapters = "" if comparison.saved_step is None else f", and the adapters after step {comparison.saved_step}"
    steps = f"every metric of {comparison.num_steps} steps{adapters}"
    if comparison.results and not has_causes:
        print(
            "\nonly the results differ: the two did not compute alike. On a CPU the number of threads (OMP_NUM_THREADS), on a GPU the kernels "
            "and what else runs decide in which order numbers are added"
        )
    elif not comparison.results and not comparison.num_steps:
        print("\nneither has taken a step" if has_causes else "nothing differs, and neither has taken a step")
    elif not comparison.results:
        print(
            f"\nthe same came out all the same: {steps}"
            if has_causes
            else f"nothing differs: the same came out, {steps}"
        )


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
