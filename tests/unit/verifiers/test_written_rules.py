"""The tables of docs/verdicts.md, run row by row."""

import re
from pathlib import Path

import pytest

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.verifiers.foreign import stated_answer
from agon.verifiers.golds import unreadable_golds
from agon.verifiers.math import MathChecker

PAGE = (Path(__file__).parents[3] / "docs" / "verdicts.md").read_text(encoding="utf-8")


def tables(*header):
    """Every table of the page with this header: the heading it stands under, and its rows, without backticks."""
    found, heading, rows = [], "", None
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not cells:
            rows = None
        elif tuple(cells) == header:
            rows = []
            found.append((heading, rows))
        elif rows is not None and set(line) - set("|- "):
            rows.append([cell[1:-1].replace(r"\|", "|") if cell.startswith("`") else cell for cell in cells])
    assert found, f"no table {header} on the page"
    return found


RULES = tables("gold", "answer", "verdict")


@pytest.fixture(scope="module")
def checker():
    made = MathChecker(VerifierSettings(timeout_s=2.0, workers=2))
    yield made
    made.close()


@pytest.mark.parametrize(("rule", "rows"), RULES, ids=[rule for rule, _ in RULES])
def test_the_examples_of_a_rule_get_the_verdict_that_the_page_says(checker, rule, rows):
    verdicts = checker.check([(gold, answer) for gold, answer, _ in rows])
    found = [[gold, answer, verdict.outcome] for (gold, answer, _), verdict in zip(rows, verdicts, strict=True)]
    assert found == rows


@pytest.mark.parametrize(("rule", "rows"), RULES, ids=[rule for rule, _ in RULES])
def test_each_rule_has_a_right_and_a_wrong_example(rule, rows):
    outcomes = {outcome for _, _, outcome in rows}
    assert "correct" in outcomes
    assert outcomes - {"correct"}


@pytest.mark.parametrize(("text", "style", "answer"), tables("completion", "style", "answer")[0][1])
def test_examples_of_extraction(text, style, answer):
    assert extract_answer(text, style) == (None if answer == "none" else answer)


@pytest.mark.parametrize(("text", "answer"), tables("output", "stated answer")[0][1])
def test_examples_of_the_lenient_reading(text, answer):
    assert stated_answer(text) == (None if answer == "none" else answer)


def test_examples_of_gold_answers():
    rows = tables("gold", "verdict")[0][1]
    reasons = unreadable_golds([gold for gold, _ in rows])
    assert [[gold, "refused" if reason else "legal"] for (gold, _), reason in zip(rows, reasons, strict=True)] == rows
