"""From settings to rows: which file or Hub split holds them, which columns, and each row as a problem or the reason why not."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from agon.config import TaskSettings
from agon.errors import ConfigError, DataError
from agon.gym_families import GYM_PREFIX
from agon.imported import imported_function, is_own
from agon.records import Problem
from agon.tasks.generated import open_generated
from agon.tasks.gym import open_gym
from agon.tasks.named import ANSWER_COLUMNS, LEVEL_COLUMNS, NAMED, QUESTION_COLUMNS, NamedTask
from agon.tasks.programs import CODE_COLUMNS, is_code_shape, program_problem
from agon.tasks.reader import open_file, open_hub
from agon.tasks.rows import VERIFIER_COLUMNS, Columns, UnusableRow, problem_of, question_of
from agon.tasks.table import Table, Values, listed

_OF_FILES = ("path", "test_path", "hub", "hub_config", "hub_split")
_SET = "set task.{}_field to the column's name"


class Sources(NamedTuple):
    """Where a task's problems are read from: those that will be split, and those that are the test split as they are."""

    main: Table | None
    test: Table | None


class ReadRow(NamedTuple):
    """A row by its number: its problem, or the reason why it has none."""

    number: int
    problem: Problem | None
    reason: str = ""


def open_sources(settings: TaskSettings) -> Sources:
    """Open what the settings name.

    Raises:
        ConfigError: no such file, or a setting that would have no effect.
        DataError: a file cannot be read, or the Hub cannot be reached.
    """
    if settings.name.startswith(GYM_PREFIX):
        return _open_family(settings)
    if is_own(settings.name):
        refuse_unused(settings, _OF_FILES, f"{settings.name} is generated")
        return Sources(
            open_generated(settings.name, num_problems=settings.num_generated, seed=settings.generator_seed), None
        )
    refuse_unused(settings, ("num_generated", "generator_seed"), f"{settings.name} is not generated")
    named = NAMED.get(settings.name)
    test = open_file(settings.test_path, key="task.test_path") if settings.test_path else None
    if settings.path is not None:
        refuse_unused(settings, ("hub", "hub_config", "hub_split"), f"the problems are read from {settings.path}")
        table = open_file(settings.path, key="task.path")
        is_test_alone = named is not None and named.train_split is None and test is None
        return Sources(None, table) if is_test_alone else Sources(table, test)
    if settings.hub is not None:
        return Sources(open_hub(settings.hub, settings.hub_config, settings.hub_split), test)
    if named is None and test is not None:
        return Sources(None, test)
    if named is None:
        raise ConfigError(f"task.name is {settings.name!r}, which has no data set of its own: set task.path")
    refuse_unused(settings, ("hub_config", "hub_split"), f"{settings.name} knows its own on the Hub")
    if test is None and named.test_split is not None:
        test = open_hub(named.hub, named.config, named.test_split)
    main = open_hub(named.hub, named.config, named.train_split) if named.train_split else None
    return Sources(main, test)


def _open_family(settings: TaskSettings) -> Sources:
    unused = (*_OF_FILES, "question_field", "answer_field", "verifier")
    refuse_unused(settings, unused, f"{settings.name} is generated")
    return Sources(open_gym(settings.name, num_problems=settings.num_generated, seed=settings.generator_seed), None)


def read_problems(table: Table, settings: TaskSettings) -> Iterator[ReadRow]:
    """Yield every row, in order.

    Raises:
        ConfigError: a column that is needed is not there.
    """
    wanted, build = _reader_of(table, settings)
    return _read_rows(table, wanted, build)


def read_questions(table: Table, name: str, columns: Sequence[str] = ()) -> Iterator[ReadRow]:
    """Yield every row with its question alone, of the task `name`; code problems are known by their shape and read as such.

    `columns` are tried before the known names.

    Raises:
        ConfigError: no column is there that could hold a question.
    """
    named = NAMED.get(name)
    if (named is not None and named.verifier == "code") or is_code_shape(table.columns):
        wanted, build = CODE_COLUMNS, partial(program_problem, task=name)
    else:
        known = (*columns, *(named.question_columns if named else QUESTION_COLUMNS))
        column = _column(table, known, "question", "name it with --against-question")
        wanted, build = (column,), partial(question_of, column=column, task=name)
    return _read_rows(table, wanted, build)


def _read_rows(table: Table, wanted: Sequence[str | None], build: Callable[[Values], Problem]) -> Iterator[ReadRow]:
    for number, values, fault in table.read([name for name in wanted if name in table.columns]):
        try:
            if fault:
                raise UnusableRow(fault)
            yield ReadRow(number, build(values))
        except UnusableRow as unusable:
            yield ReadRow(number, None, str(unusable))


def _reader_of(table: Table, settings: TaskSettings) -> tuple[Sequence[str | None], Callable[[Values], Problem]]:
    """The columns that a row is read by, and what makes a problem of it."""
    verifier = verifier_of(settings)
    if verifier == "code":
        fields = ("question_field", "answer_field")
        refuse_unused(settings, fields, "code problems are read by the columns of their shape")
        return CODE_COLUMNS, partial(program_problem, task=settings.name)
    if settings.verifier == "auto" and is_code_shape(table.columns):
        raise ConfigError(_told_programs(table, settings))
    columns = _columns(table, settings, NAMED.get(settings.name))
    # A verifier of the user's own may look at any other column.
    kept = tuple(name for name in table.columns if name not in columns) if is_own(verifier) else ()
    wanted = [columns.question, columns.answer, columns.level, *VERIFIER_COLUMNS.get(verifier, ()), *kept]
    return wanted, partial(problem_of, columns=columns, kept=kept, task=settings.name, verifier=verifier)


def _told_programs(table: Table, settings: TaskSettings) -> str:
    without = "" if settings.answer_field is None else f" (without task.answer_field, {settings.answer_field!r})"
    found = listed(name for name in table.columns if name in CODE_COLUMNS)
    return (
        f"{table.source} holds programs with tests (columns {found}): set task.verifier and task.answer_style to "
        f'"code"{without}, or name the verifier of their answers, such as "math"'
    )


def verifier_of(settings: TaskSettings) -> str:
    """Return the name of the program that checks the task's answers.

    Raises:
        ConfigError: it is one of the user's own and cannot be imported.
    """
    if is_own(settings.verifier):
        imported_function("task.verifier", settings.verifier)
    if settings.verifier != "auto":
        return settings.verifier
    if settings.name == "countdown-lite":
        return "expression"
    if settings.name.startswith(GYM_PREFIX):
        return "reasoning-gym"
    named = NAMED.get(settings.name)
    return named.verifier if named else "math"


def refuse_unused(settings: TaskSettings, names: Sequence[str], why: str) -> None:
    """Refuse settings that were changed and would have no effect."""
    for name in names:
        value = getattr(settings, name)
        if value != TaskSettings.model_fields[name].default:
            raise ConfigError(f"task.{name} is {value!r}, but {why}: leave task.{name} out")


def _columns(table: Table, settings: TaskSettings, named: NamedTask | None) -> Columns:
    questions = named.question_columns if named else QUESTION_COLUMNS
    answers = named.answer_columns if named else ANSWER_COLUMNS
    level = next((name for name in LEVEL_COLUMNS if name in table.columns), None)
    return Columns(
        _column(
            table,
            (settings.question_field,) if settings.question_field else questions,
            "question",
            _SET.format("question"),
        ),
        _column(table, (settings.answer_field,) if settings.answer_field else answers, "answer", _SET.format("answer")),
        level,
    )


def _column(table: Table, wanted: Sequence[str], what: str, remedy: str) -> str:
    for name in wanted:
        if name in table.columns:
            return name
    if not table.columns:
        raise DataError(f"{table.source} has no rows: give a file with one problem a row")
    by_lower = {column.lower(): column for column in table.columns}
    near = [close for name in wanted for close in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)]
    hint = f" (did you mean {by_lower[near[0]]!r}?)" if near else ""
    raise ConfigError(
        f"{table.source} has no column for the {what}: looked for {listed(wanted)}; found {listed(table.columns)}{hint}: "
        f"{remedy}"
    )
