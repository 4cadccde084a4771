"""What the commands share: their parser, their arguments, presets by name, JSON on standard output."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TextIO

from agon.errors import ConfigError
from agon.records import NAMED_TASKS
from agon.secrecy import redact_text
from agon.signals import EXIT_INTERRUPTED as EXIT_INTERRUPTED

if TYPE_CHECKING:
    from agon.config import Settings

EXIT_FAILED = 1
EXIT_USAGE = 2

QUICKSTART = "quickstart"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DATA_ENDINGS = (".jsonl", ".ndjson", ".gz", ".json", ".parquet", ".csv", ".tsv")


class Parser(argparse.ArgumentParser):
    """An argument parser that tells of a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line: what was wrong and where help is."""
        self.exit(EXIT_USAGE, f"agon: {one_line(message)}; see `{self.prog} --help`\n")


class Subcommands(Protocol):
    """Where a command adds its parser."""

    def add_parser(self, name: str, *, help: str, description: str) -> Parser:
        """Return the parser of a new command."""
        ...


def filled(value: str) -> str:
    """Refuse an empty argument, which is most often an unset variable of a script."""
    if not value.strip():
        raise argparse.ArgumentTypeError("it is empty: give a value, or leave it out")
    return value


def text(value: str) -> str:
    """Refuse what is no name or path: an empty argument, and one with a line break."""
    filled(value)
    if any(character < " " for character in value):
        raise argparse.ArgumentTypeError(
            f"{value[:80]!r} holds a line break or another control character: leave it out"
        )
    return value


# What decides how completions are sampled and checked, whoever asks for them.
SAMPLING_KEYS = (
    "model.",
    "task.",
    "rollout.engine",
    "rollout.vllm_adapters",
    "rollout.engine_memory_share",
    "rollout.max_draft_tokens",
    "rollout.max_challenge_tokens",
    "rollout.max_summary_tokens",
    "rollout.max_rows",
    "verifier.",
    "reward.length_target",
)


def refuse_idle(overrides: Sequence[str], used: Sequence[str], *, command: str) -> None:
    """Check that `--set` changes something: `used` are the keys that the command looks at, and tables (`task.`) of such keys.

    Raises:
        ConfigError: a key of another name, which would be ignored.
    """
    for key in (override.partition("=")[0].strip() for override in overrides):
        # What has no dot has another mistake.
        if "." in key and not key.startswith(tuple(name for name in used if name.endswith("."))) and key not in used:
            known = ", ".join(f"{name}*" if name.endswith(".") else name for name in used)
            raise ConfigError(f"--set {key} has no effect in `{command}`, which looks at {known}: leave it out")


def is_data_file(task: str) -> bool:
    """Tell whether NAME|PATH is a file: it is there or ends like one, and no task has that name."""
    return task not in NAMED_TASKS and (Path(task).suffix in _DATA_ENDINGS or Path(task).exists())


def holds_programs(path: str, overrides: Sequence[str], *, key: str) -> bool:
    """Tell whether the rows of a file are code problems, by its columns, and no override says how they are to be read.

    Raises:
        AgonError: the file, which the argument `key` names, cannot be read.
    """
    from agon.tasks.programs import is_code_shape
    from agon.tasks.reader import open_file

    chosen = {override.partition("=")[0].strip() for override in overrides}
    if chosen & {"task.name", "task.verifier", "task.answer_field"}:
        return False
    return is_code_shape(open_file(path, key=key).columns)


def printable(text: str) -> str:
    """Return a text that a terminal shows and does not obey: control characters but for tab and newline, marks that turn the direction of
    writing, and halves of surrogate pairs are escaped.
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def tell(note: str) -> None:
    """Print a note on standard error, where it is in nobody's way."""
    print(f"agon: {one_line(note)}", file=sys.stderr)


def one_line(message: object) -> str:
    """Return a message as one line without secrets, whatever a library, a file's name or a model put into it."""
    return printable(redact_text(" ".join(str(message).splitlines())))


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add what says how runs are compared: `--against`, `--task`, `--split`."""
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        type=text,
        metavar="ARM",
        help="the arm (or row, ARM:PROTOCOL:WHO) to test every other against; repeat for several "
        "(default: those a matrix names, or cooperative and grpo-doubled-cap where they are there, else the first)",
    )
    parser.add_argument(
        "--task", type=text, metavar="NAME", help="compare evaluations of this task, where there are several"
    )
    parser.add_argument("--split", choices=("test", "dev"), help="compare evaluations on this split (default: test)")


_document_streams: list[TextIO] = []


@contextmanager
def documents_only() -> Generator[None]:
    """Keep standard output for JSON documents: what a module of the user's own or a library prints goes to standard error."""
    _document_streams.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _document_streams.pop()


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document on standard output."""
    stream = _document_streams[-1] if _document_streams else sys.stdout
    line = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        line.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair, or a letter that the terminal does not know: JSON can say it in ASCII.
        line = json.dumps(document, allow_nan=False)
    print(line, file=stream)


def settings_of(name: str, overrides: list[str]) -> Settings:
    """Read a recipe by its path, or a preset by its name.

    Raises:
        ConfigError: there is none of that name, or it cannot be used.
    """
    from agon.recipe import load_recipe

    with recipe_path(name) as path:
        return load_recipe(path, overrides)


def default_out(recipe: str) -> Path:
    """Return where a run goes that nobody gave a place: a folder of the recipe's name.

    Raises:
        ConfigError: the recipe's name is none that a folder could have.
    """
    name = Path(recipe).name.removesuffix(".toml")
    if name in ("", ".", ".."):
        raise ConfigError(f"recipe {recipe!r} has no name to call a folder by: say with --out where the run goes")
    return Path("runs") / name


@contextmanager
def recipe_path(name: str) -> Generator[Path]:
    """Give the file of a recipe by its path, or of a preset by its name.

    Raises:
        ConfigError: there is no preset of that name.
    """
    from importlib import resources

    path = Path(name)
    if path.suffix == ".toml":
        yield path
        return
    recipes = [file for file in resources.files("agon.recipes").iterdir() if file.name.endswith(".toml")]
    presets = {file.name.removesuffix(".toml"): file for file in recipes}
    if name not in presets:
        known = ", ".join(sorted(presets))
        raise ConfigError(f"{name!r} is neither a .toml file nor a preset; presets: {QUICKSTART}, {known}")
    with resources.as_file(presets[name]) as recipe:
        yield recipe
