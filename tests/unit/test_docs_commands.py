"""Every command of README.md and docs/ parses, what it names is there, and its settings can be used.

That they run: tests/e2e/test_docs_commands.py.
"""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

from agon.ablation.matrix import matrix_table
from agon.cli.common import recipe_path
from agon.cli.serve_endpoints import wants_endpoints
from agon.config import Settings
from agon.methods.settle import settled
from agon.recipe import MATRIX_TABLE, read_tables, settings_from
from agon.records import METHODS, NAMED_TASKS
from agon.serve.schema import ChatBody

_SPEC = importlib.util.spec_from_file_location("docs_pages", Path(__file__).parents[1] / "docs_pages.py")
pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pages)

ROOT, TEXTS = pages.ROOT, pages.TEXTS
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
CLI = TEXTS["docs/cli.md"]


def of(program):
    return pytest.mark.parametrize("command", [one for one in pages.COMMANDS if one.words[0] == program], ids=str)


def section_of(options):
    """What the page of the command line, which is made from the parsers, says of a command."""
    words = [options.command, *(getattr(options, name) for name in ("what", "part") if hasattr(options, name))]
    return CLI.partition(f"\n## `agon {' '.join(words)}`\n")[2].partition("\n## ")[0]


@of("agon")
def test_a_command_parses_and_all_that_it_names_is_there(command):
    options = command.options
    known = (*pages.RUNS, *pages.RECIPES, *pages.FILES, *pages.ELSEWHERE, *pages.made_before(command))
    unknown = [name for name in pages.inputs(options) if name not in known and not pages.is_ours(name)]
    # A model of the Hub, a function in one of the examples.
    unknown = [name for name in unknown if not re.fullmatch(r"(?!runs/)[\w-]+/[\w.-]+|own_\w+:\w+", name)]
    assert unknown == [], "write them into tests/docs_pages.py, with what stands for them"
    assert [name for name in command.variables if name not in pages.VARIABLES] == []
    assert section_of(options)
    told = re.findall(r"--[a-z][\w-]*", command.comment)
    assert [name for name in told if f"`{name}" not in section_of(options)] == []


@of("agon")
def test_a_commands_settings_can_be_used(command, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    options, tree = command.options, {}
    if options.command == "serve":
        wants_endpoints(options)
    recipe = getattr(options, "recipe", None)
    written = {step.name: step.content for step in pages.STEPS[command.page] if isinstance(step, pages.File)}
    if recipe in written:
        tree = tomllib.loads(written[recipe])
    elif recipe and pages.is_ours(recipe) and recipe != "quickstart":
        with recipe_path(str(ROOT / recipe) if recipe.endswith(".toml") else recipe) as path:
            tree = read_tables(path)
    elif options.command == "data" and getattr(options, "task", None) in NAMED_TASKS:
        tree = {"task": {"name": options.task}}
    arms = [arm.name for arm in matrix_table(tree.pop(MATRIX_TABLE, {}), source=str(command)).arms]
    settled(settings_from(tree, getattr(options, "set", []), source=str(command)))
    assert set(getattr(options, "methods", None) or []) <= {*arms, *METHODS}


@of("make")
def test_a_target_of_make_is_there(command):
    assert set(command.words[1:]) <= set(TARGETS)


@of("python")
def test_a_script_is_there_and_has_its_options(command):
    script = (ROOT / command.words[1]).read_text(encoding="utf-8")
    assert [word for word in command.words if word.startswith("--") and f'"{word}"' not in script] == []


@of("pip")
def test_what_is_installed_is_ours_or_the_client(command):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {f"{name}[{extra}]" for name in (project["name"], ".") for extra in project["optional-dependencies"]}
    assert command.words[1] == "install"
    assert set(command.words[2:]) - {"-e"} <= extras | {project["name"], ".", "openai"}


@of("curl")
def test_a_request_has_a_body_that_the_server_takes(command):
    (url,) = [word for word in command.words if word.startswith("http")]
    if "-d" in command.words:
        assert url.endswith("/v1/chat/completions")
        ChatBody.model_validate(json.loads(command.words[command.words.index("-d") + 1]))


@pytest.mark.parametrize("page", TEXTS)
def test_commands_in_a_text_have_the_names_and_options_that_they_are_given(page):
    for program, word, rest in re.findall(r"`(agon|make) ([a-z][\w-]*)( [^`]*)?`", TEXTS[page]):
        if program == "make":
            assert word in TARGETS, f"make {word}"
            continue
        sections = re.findall(rf"\n## `agon {word}\b.*?(?=\n## |\Z)", CLI, flags=re.DOTALL)
        assert sections, f"agon {word}"
        options = re.findall(r"(?<= )--[a-z][\w-]*", rest)
        assert [name for name in options if not any(f"`{name}" in section for section in sections)] == [], rest


@pytest.mark.parametrize("page", TEXTS)
def test_recipes_and_programs_in_blocks_can_be_read(page):
    for block in pages.blocks(TEXTS[page]):
        text = "\n".join(line for _, line in block)
        if re.match(r"(import|from) \w", text):
            compile(text, page, "exec")
        elif re.match(r"\[\[?[a-z.]+\]", text):
            tree = tomllib.loads(text)
            matrix_table(tree.pop(MATRIX_TABLE, {}), source=page)
            fields = {table: field.annotation.model_fields for table, field in Settings.model_fields.items()}
            keys = {(table, key) for table, inner in tree.items() for key in inner}
            assert {(table, key) for table, key in keys if key not in fields.get(table, ())} == set()


def test_commands_and_files_are_found_as_a_reader_finds_them(monkeypatch):
    text = (
        "Text `agon eval`.\n    agon no block\n\n    A=1 agon solve RUN \\\n      '1 2' # with --json\n    cat > a.toml <<'END'\n"
        "    [train]\n\n    steps = 1\n    END\n\n    agon train a.toml\n\n```\n$ make demo\n    x\n```\nagon no block\n"
    )
    monkeypatch.setitem(pages.TEXTS, "page.md", text)
    solve, file, train, make = pages.steps("page.md")
    assert (solve.words, solve.variables) == (["agon", "solve", "RUN", "1 2"], {"A": "1"})
    assert (solve.comment, solve.line) == ("with --json", 5)
    assert file == ("a.toml", "[train]\n\nsteps = 1\n")
    assert (train.text, train.out) == ("agon train a.toml", "runs/a")
    assert (make.words, make.line) == (["make", "demo"], 15)
