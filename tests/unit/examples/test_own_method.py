"""The example of a method in one file: its size, and its rewards by hand. A run with it: tests/e2e/test_own_method.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.rewards.terms import RewardWeights

EXAMPLES = Path(__file__).parents[3] / "examples"
NAME = "own_method:HardProblems"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    sys.modules.pop("own_method", None)


def _match(draft, challenge):
    def attempt(role, adapter, is_right):
        completion = Completion((1,), (-0.1,), "x", "stop", adapter, 0)
        return Attempt(
            role, adapter, Prompt((1,), "q"), completion, Verdict("correct" if is_right else "wrong", 0.0), 1.0
        )

    summary = Summary("s", is_empty=False, has_leak=False, num_withheld=0)
    problem = Problem(id="p", question="q", gold="2", task="t", verifier="exact")
    return Match(problem, 0, (attempt("drafter", "A", draft),), (summary,), attempt("challenger", "B", challenge))


def test_a_method_is_one_file_of_under_80_lines():
    assert len((EXAMPLES / "own_method.py").read_text(encoding="utf-8").splitlines()) < 80


def test_right_answers_earn_the_share_of_wrong_drafts():
    method = method_named(NAME)
    matches = [_match(draft, challenge) for draft, challenge in ((0, 1), (0, 0), (0, 1), (1, 1))]
    view = StepView(0, 0, method.lineup(0), RewardWeights(conversion=2.0))
    # three of four drafts wrong: 2 + .5 + 2 (3/4) where right
    assert method.streams([matches], view)[1].groups[0].rewards == (4.0, 0.5, 4.0, 4.0)
