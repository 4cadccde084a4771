from __future__ import annotations

from agon.match.unchecked import NOT_CHECKED, unchecked_verdict
from agon.records import Completion


def test_an_unchecked_answer_is_read_and_neither_right_nor_wrong():
    completion = Completion((1,), (-0.5,), "<think>x</think>so<answer> 7 </answer>", "stop", "A", 0)
    verdict = unchecked_verdict(completion, "tags")
    assert (verdict.answer, verdict.outcome, verdict.reason) == ("7", "unparsed", NOT_CHECKED)
    assert not verdict.is_correct
