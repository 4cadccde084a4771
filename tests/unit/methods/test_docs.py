"""docs/methods.md says of every method what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agon.config import RewardSettings
from agon.methods.registry import method_named
from agon.records import METHODS
from agon.rewards.terms import RewardWeights

DOCS = Path(__file__).parents[3] / "docs"
READS = {"own": "own draft", "shared": "first draft", "hidden": "nothing"}
LEARNED = {("drafter",): "drafts", ("challenger",): "challenges", ("drafter", "challenger"): "both"}


def _rows(heading):
    """The rows of the first table whose header starts so, as lists of cells."""
    lines = (DOCS / "methods.md").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


ROWS = {row[0].strip("`"): row for row in _rows("| name | drafts")}


def test_every_method_has_a_row_in_the_order_of_the_names():
    assert tuple(ROWS) == METHODS


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_who_drafts_challenges_reads_and_learns(make_match, make_draft, streams_of, name):
    lineups = [method_named(name).lineup(step) for step in (0, 1)]
    drafts = list(dict.fromkeys(lineup.drafters[0] for lineup in lineups))
    challenges = list(dict.fromkeys(lineup.challenger for lineup in lineups))
    has_challenge = lineups[0].has_challenge
    match = make_match(0, 1) if has_challenge else make_draft(0)
    roles = tuple(stream.role for stream in streams_of(name, [match] * 2, RewardWeights(length_target=30)))
    reads = READS[lineups[0].reads] + (", answer shown" if lineups[0].shows_answer else "")
    assert ROWS[name][1:5] == [
        ", ".join(drafts),
        ", ".join(challenges) if has_challenge else "–",
        reads if has_challenge else "–",
        LEARNED[roles],
    ]
    assert all(ROWS[name][5:])


def test_the_settings_that_methods_stand_for_are_all_listed():
    listed = {
        row[0].strip("`"): {key: value.strip('"') for key, value in re.findall(r"`(\w+) = ([^`]+)`", row[1])}
        for row in _rows("| name | settings")
    }
    fixed = {name: {k: str(v) for k, v in method_named(name).fixed.items()} for name in METHODS}
    assert listed == {name: settings for name, settings in fixed.items() if settings}


def test_guesses_are_those_that_settings_mark():
    page = (DOCS / "methods.md").read_text(encoding="utf-8").partition("## Guesses")[2]
    marked = [name for name, field in RewardSettings.model_fields.items() if "guess" in (field.description or "")]
    assert marked
    assert [name for name in marked if f"`reward.{name}`" not in page] == []
