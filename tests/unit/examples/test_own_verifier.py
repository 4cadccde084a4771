"""The example of a verifier in one file: its verdicts by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agon.config import VerifierSettings
from agon.records import Completion, Problem
from agon.verifiers.registry import open_verifiers

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def judged(monkeypatch):
    """Return what the example decides about an answer to a problem whose gold is 19.62, with these columns."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    verifiers = open_verifiers(VerifierSettings())

    def judge(answer, **columns):
        problem = Problem("id", "q", "19.62", "t", "own_verifier:within", details=columns)
        completion = Completion((), (), f"<answer>{answer}</answer>", "stop", "A", 0)
        (verdict,) = verifiers.verify([(problem, completion)], "tags")
        return verdict.outcome, verdict.reason

    yield judge
    verifiers.close()
    sys.modules.pop("own_verifier", None)


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        ("19.5", "correct", "within 0.2"),
        ("19.82 m", "correct", "within 0.2"),
        ("20", "wrong", "off by 0.38"),
        ("between 19 and 20", "unparsed", "the answer is not one number"),
    ],
)
def test_a_number_counts_within_the_rows_tolerance(judged, answer, outcome, reason):
    assert judged(answer, tolerance=0.2000001) == (outcome, reason)


def test_a_row_without_a_tolerance_is_an_error_and_no_wrong_answer(judged):
    assert judged("19.62") == ("error", "KeyError: 'tolerance'")
