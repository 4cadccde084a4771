"""`agon data`: which tasks there are, what their problems look like, what is wrong with a data set."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.common import (
    EXIT_FAILED,
    Parser,
    Subcommands,
    add_json,
    holds_programs,
    is_data_file,
    print_json,
    printable,
    text,
)
from agon.errors import ConfigError

if TYPE_CHECKING:
    from agon.config import Settings, TaskSettings
    from agon.records import Problem
    from agon.tasks.data import TaskData

_SHOWN_CHARS = 2_000


def add_parser(subcommands: Subcommands) -> None:
    """Add the command and its three parts."""
    parser = subcommands.add_parser(
        "data",
        help="list, show and check tasks and data sets",
        description="List the named tasks, show problems as a model is asked them, check a data set.",
    )
    parts = parser.add_subparsers(dest="part", metavar="list|show|check", required=True)
    listing = parts.add_parser("list", help="the named tasks", description="List the named tasks.")
    add_json(listing)
    listing.set_defaults(run=list_tasks)
    showing = parts.add_parser(
        "show", help="problems of a task", description="Show problems of a task as a run would load them."
    )
    _add_task(showing)
    showing.add_argument("--n", type=int, default=3, metavar="K", help="how many problems (default: 3)")
    showing.add_argument("--split", choices=("train", "dev", "test"), help="of which split (default: the first)")
    add_json(showing)
    showing.set_defaults(run=show)
    checking = parts.add_parser(
        "check",
        help="faults of a data set, by row number",
        description="Check a data set with the verifier that will judge its answers. Exit code 0: clean, 1: faults were found.",
    )
    _add_task(checking)
    checking.add_argument(
        "--against", action="append", default=[], type=text, metavar="NAME|PATH", help="an evaluation set to look for"
    )
    checking.add_argument(
        "--against-question",
        action="append",
        default=[],
        type=text,
        metavar="COLUMN",
        help="of --against, the column of the questions where it has no known name",
    )
    checking.add_argument(
        "--model", type=text, metavar="MODEL", help="whose tokenizer counts the questions: a folder or a Hub name"
    )
    checking.add_argument("--n", type=int, default=5, metavar="K", help="rows shown of each kind (default: 5)")
    add_json(checking)
    checking.set_defaults(run=check)


def _add_task(parser: Parser) -> None:
    parser.add_argument("task", type=text, metavar="NAME|PATH", help="a named task, or a data file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting: task.answer_field=gold"
    )


def list_tasks(options: Namespace) -> int:
    """`agon data list`."""
    from agon.tasks.catalog import catalog, catalog_json

    if options.json:
        print_json(catalog_json())
        return 0
    for entry in catalog():
        print(f"{entry.name}: {entry.what}")
        splits, license_ = "/".join(entry.splits), entry.license or "license not known"
        print(f"    from {entry.source}; verifier {entry.verifier}; splits {splits}; {license_}")
    return 0


def show(options: Namespace) -> int:
    """`agon data show`."""
    from agon.tasks.account import describe_task, summary_lines
    from agon.tasks.loader import load_task

    if options.n < 0:
        raise ConfigError(f"--n is {options.n}: give 0 or more")
    task = load_task(_settings(options.task, options.set).task)
    shown = list(_chosen(task, options.split))[: options.n]
    if options.json:
        problems = [{"split": split} | _problem_json(task, problem) for split, problem in shown]
        print_json(describe_task(task) | {"problems": problems})
        return 0
    for line in summary_lines(task):
        print(printable(line))
    for split, problem in shown:
        origin = task.origins.get(problem.id)
        row = f", row {origin.number} of {origin.source}" if origin else ""
        level = "" if problem.level is None else f", level {problem.level:g}"
        print(printable(f"\n[{split}{row}{level}, verifier {problem.verifier}]\n{_cut(problem.question)}"))
        print(printable(f"gold: {_cut(problem.gold) or '(none)'}"))
    return 0


def _chosen(task: TaskData, split: str | None) -> Iterator[tuple[str, Problem]]:
    return ((name, one) for name, problems in task.splits.items() if split in (None, name) for one in problems)


def _problem_json(task: TaskData, problem: Problem) -> dict[str, Any]:
    origin = task.origins.get(problem.id)
    return {
        "id": problem.id,
        "row": origin and origin.number,
        "question": problem.question,
        "gold": problem.gold,
        "level": problem.level,
        "verifier": problem.verifier,
    }


def check(options: Namespace) -> int:
    """`agon data check`."""
    from agon.cli.data_report import print_data_report
    from agon.cli.progress import StagesProgress
    from agon.datacheck.check import check_data

    if options.n < 0:
        raise ConfigError(f"--n is {options.n}: give 0 or more")
    settings = _settings(options.task, options.set)
    if options.against_question and not options.against:
        raise ConfigError("--against-question has no meaning without --against: leave it out")
    against = {name: _evaluation_set(name) for name in options.against}
    count_tokens = _tokenizer(options.model) if options.model else None
    with StagesProgress() as progress:
        report = check_data(
            settings,
            against=against,
            question_columns=options.against_question,
            count_tokens=count_tokens,
            on_progress=progress.update,
        )
    if options.json:
        print_json(report.to_json())
    else:
        print_data_report(report, most=options.n)
    return 0 if report.is_clean else EXIT_FAILED


def _settings(task: str, overrides: list[str]) -> Settings:
    from agon.recipe import settings_from

    for override in overrides:
        if not override.strip().startswith(("task.", "verifier.")):
            raise ConfigError(f"--set {override!r}: only settings of the tables task and verifier have a meaning here")
    if not is_data_file(task):
        return settings_from({"task": {"name": task}}, overrides, source="agon data")
    tree = {"name": "custom", "path": task}
    if holds_programs(task, overrides, key="task.path"):
        tree["verifier"] = "code"
    return settings_from({"task": tree}, overrides, source="agon data")


def _evaluation_set(name: str) -> TaskSettings:
    from agon.recipe import settings_from

    tree = {"name": "custom", "path": name} if is_data_file(name) else {"name": name}
    return settings_from({"task": tree}, source="--against").task


def _tokenizer(model: str) -> Callable[[str], int]:
    """Return what counts the tokens of a text. The tokenizers library reads a folder's or a Hub model's without loading torch."""
    from tokenizers import Tokenizer

    from agon.tasks.hub import hub_is_reachable

    file = Path(model).expanduser() / "tokenizer.json"
    if not file.parent.is_dir() and not hub_is_reachable():
        # The library would try for half a minute, and say so line by line.
        raise ConfigError(f"--model is {model!r}, which is no folder, and the Hub cannot be reached: give a folder")
    try:
        tokenizer = Tokenizer.from_file(str(file)) if file.parent.is_dir() else Tokenizer.from_pretrained(model)
    except Exception as error:  # the library raises plain Exceptions
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(
            f"--model is {model!r}, whose tokenizer.json cannot be read ({reason}): give a folder that has one"
        ) from None
    return lambda words: len(tokenizer.encode(words, add_special_tokens=False).ids)


def _cut(words: str) -> str:
    return words if len(words) <= _SHOWN_CHARS else f"{words[:_SHOWN_CHARS]}… ({len(words):,} characters)"
