"""The pages that are made from the code are those that the code makes now, and hold all of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from agon.config import Settings
from agon.metrics import METRICS, PACE, TIMINGS

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_docs.py"


def _load():
    spec = importlib.util.spec_from_file_location("write_docs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = {path.name: (path, make()) for path, make in _load().PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name):
    path, made = PAGES[name]
    assert path.read_text(encoding="utf-8") == made, (
        f"docs/{name} is out of date: run make docs, and look at the change"
    )


def test_every_metric_has_its_row():
    page = PAGES["metrics.md"][1]
    assert [name for name in (*METRICS, *TIMINGS, *PACE) if f"`{name}`" not in page] == []
    assert "| `match/conversion` | share | challenge right / matches whose draft was wrong |" in page
    # A bar would end the cell.
    assert "| nats | largest \\|learner - engine\\| logprob of a token | above 1 in float32 |" in page


def test_every_setting_has_its_row_with_a_meaning():
    page = PAGES["settings.md"][1]
    for table, field in Settings.model_fields.items():
        section = page.partition(f"## `[{table}]`\n")[2].partition("\n## ")[0]
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        assert [row[0] for row in rows] == [f"| `{key}`" for key in field.annotation.model_fields]
        assert all(len(row) == 4 and len(row[3]) > 5 for row in rows), rows


@pytest.mark.parametrize(
    "row",
    [
        "| `steps` | whole number > 0 | `100` |",
        "| `dev_share` | number ≥ 0, ≤ 1 | `0.1` |",
        '| `engine` | `auto`, `torch`, `vllm` | `"auto"` |',
        "| `revision` | text | not set |",
        '| `gradient_checkpointing` | `true` or `false` or `auto` | `"auto"` |',
        "| `seeds` | list (whole number ≥ 0) | `[0, 1, 2]` |",
        "| `name` | text | must be given |",
    ],
)
def test_a_setting_says_type_limits_and_default(row):
    assert row in PAGES["settings.md"][1]


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("train", "| `[RECIPE]` | a .toml file or a preset's name (default: quickstart) |"),
        ("train", "| `--set KEY=VALUE`; several times | override one setting: train.steps=50 |"),
        ("eval", "| `--direction a-b\\|b-a\\|dev` | who drafts; dev chooses on the development split (default: dev) |"),
        ("solve", "| `--seed SEED` | seed of the sampling (default: 0) |"),
        ("serve", "| `--max-body BYTES` | largest request (1048576) |"),
        ("export", "| `--out DIR`; must be given | the folder to write, new or empty |"),
        ("verify run", "| `--step STEP`; several times | only the matches of this training step;"),
        ("data show", "| `NAME\\|PATH` | a named task, or a data file |"),
        ("doctor", "| `[RUN ...]` | two run folders to compare |"),
    ],
)
def test_an_argument_says_what_it_takes_and_its_default(command, row):
    section = PAGES["cli.md"][1].partition(f"\n## `agon {command}`\n")[2].partition("\n## ")[0]
    assert row in section


def test_exit_codes_are_those_of_the_errors():
    page = PAGES["cli.md"][1]
    codes = page.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [line.split(" | ")[0] for line in codes.splitlines() if line[2:3].isdigit()] == [
        "| 0",
        "| 1",
        "| 2",
        "| 3",
        "| 130",
    ]
    assert "| 3 | A model that is no longer what it was" in codes
