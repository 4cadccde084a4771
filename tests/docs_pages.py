"""README.md and docs/ as a reader follows them: their blocks, the files that they write and the commands that they give."""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agon.cli.common import default_out
from agon.cli.main import build_parser
from agon.records import NAMED_TASKS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}

# What stands for a reader's own files and folders. tests/e2e/test_docs_commands.py has each of them.
RUNS = ("runs/mine", "runs/other", "runs/quickstart")
RECIPES = ("RECIPE.toml", "my.toml", "mine.toml")
FILES = ("mine.jsonl", "evaluation.jsonl", "problems.jsonl", "mbpp.jsonl", "answer.py", "FOLDER")
# These come from elsewhere, or from a command that takes too long.
ELSEWHERE = ("svamp.jsonl", "train.jsonl", "test.jsonl", "runs/matrix-quickstart")
VARIABLES = ("PYTHONPATH", "AGON_API_KEY", "AGON_DRAFTER_KEY", "AGON_CHALLENGER_KEY")

_COMMAND = re.compile(r"([A-Z_]+=\S+ )*(agon|make|python|pip|curl)( |$)")
_FILE = re.compile(r"cat > (\S+) <<'?(\w+)'?")
_VARIABLE = re.compile(r"[A-Z_]+=")


@cache
def _parsed(text: str) -> Namespace:
    return build_parser().parse_args(Command("", 0, text).words[1:])


class File(NamedTuple):
    """A file that a page writes."""

    name: str
    content: str


class Command(NamedTuple):
    """A line of a page that calls one of our programs."""

    page: str
    line: int
    text: str

    @property
    def words(self) -> list[str]:
        """Program and arguments."""
        return [word for word in shlex.split(self.text, comments=True) if not _VARIABLE.match(word)]

    @property
    def variables(self) -> dict[str, str]:
        """The environment that stands before the program."""
        words = shlex.split(self.text, comments=True)
        return dict(word.split("=", 1) for word in words if _VARIABLE.match(word))

    @property
    def comment(self) -> str:
        """What is said behind the command."""
        return self.text.partition(" # ")[2]

    @property
    def plain(self) -> str:
        """The command in one form, whatever stands around it."""
        return shlex.join(self.words)

    @property
    def options(self) -> Namespace:
        """What the command line makes of it.

        Raises:
            ValueError: it does not parse.
        """
        try:
            return _parsed(self.text)
        except SystemExit:
            raise ValueError(f"{self} does not parse: {self.text}") from None

    @property
    def out(self) -> str | None:
        """The run folder that it makes or goes on with."""
        options = self.options if self.words[0] == "agon" else None
        if options is None or options.command not in ("train", "ablate"):
            return None
        return options.out or str(default_out(options.recipe or "quickstart"))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str) -> Iterator[list[tuple[int, str]]]:
    """Yield every fenced or indented block as its numbered lines, without the indent of the block."""
    block: list[tuple[int, str]] = []
    is_fenced, before = False, ""
    for number, line in enumerate([*text.splitlines(), "end"], start=1):
        is_fence = line.strip().startswith("```")
        is_indented = line.startswith("    ") and (block or not before.strip())
        if not is_fence and (is_fenced or is_indented or (block and not line)):
            block.append((number, line if is_fenced else line[4:]))
        else:
            is_fenced ^= is_fence
            yield from [block] if block else []
            block = []
        before = line


def steps(page: str) -> Iterator[File | Command]:
    """Yield what a page writes and calls, from top to bottom; lines that end with a backslash are put together."""
    for block in blocks(TEXTS[page]):
        lines, joined = iter(block), ""
        for number, line in lines:
            if found := _FILE.match(line):
                written = []
                for _, inner in lines:
                    if inner.strip() == found[2]:
                        break
                    written.append(f"{inner}\n")
                yield File(found[1], "".join(written))
                continue
            joined += line.strip().removeprefix("$ ")
            if joined.endswith("\\"):
                joined = joined[:-1]
                continue
            if _COMMAND.match(joined):
                yield Command(page, number, joined)
            joined = ""


STEPS = {page: list(steps(page)) for page in TEXTS}
COMMANDS = [step for inner in STEPS.values() for step in inner if isinstance(step, Command)]


def inputs(options: Namespace) -> Iterator[str]:
    """Yield what a command of agon reads: runs, recipes, files, tasks, models."""
    names = ["recipe", "subject", "runs", "task", "program", "pairs", "model", "api_key_file"]
    names += {"data": ["against"], "verify": ["problem"]}.get(options.command, [])
    for value in (getattr(options, name, None) for name in names):
        yield from value if isinstance(value, list) else [value] if value else []
    for override in getattr(options, "set", []):
        key, _, value = override.partition("=")
        if key in ("task.path", "task.test_path", "model.base") and value != "none":
            yield value.strip('"')


def is_ours(path: str) -> bool:
    """Tell whether a reader who cloned agon has this: a file of it, a preset, a named task."""
    return path in (*NAMED_TASKS, "quickstart") or (ROOT / path).exists() or (ROOT / f"recipes/{path}.toml").exists()


def made_before(command: Command) -> list[str]:
    """Return the files and run folders that the page has made before the command."""
    made: list[str] = []
    for step in STEPS[command.page]:
        if step == command:
            break
        name = step.name if isinstance(step, File) else step.out
        made += [name] if name else []
    return made
