import pytest

from agon.verifiers.golds import unreadable_golds
from agon.verifiers.pool import Reply

# (gold, why it cannot be met); legal ones stand in docs/verdicts.md
REFUSED = [
    ("", "is empty"),
    (" ", "is empty"),
    ("$$", "is empty"),
    (r"\text{}", "is empty"),
    ("see figure", "stands in for an answer and is none"),
    ("Refer to the solution.", "stands in for an answer and is none"),
    ("N/A", "stands in for an answer and is none"),
    (r"\frac{1}{", "is broken: its brackets do not match"),
    (r"\begin{pmatrix} 1", "is broken: its brackets do not match"),
    (r"\frac{1}{2} + ", "is broken: it ends in an operator"),
    (r"\frac{1}", "is no formula that can be read as a whole"),
    ("3 / / 4", "is no formula that can be read as a whole"),
    ("1" * 2001, "has 2001 characters; more than 2000 are not read"),
    ("we see that " * 6, "is a sentence of more than 12 words, which no answer will repeat"),
]


def test_each_gold_that_cannot_be_met_is_named_with_its_reason_in_order():
    legal = ["12", r"\sqrt{2}", "Evelyn", r"(-\infty, 3]", r"G \cong \mathbb{Z}_2", r"x^2 + e^x", "2007 + \\frac\\pi 2"]
    golds = [legal[0], *[gold for gold, _ in REFUSED], *legal]
    assert unreadable_golds(golds) == [None, *[reason for _, reason in REFUSED], *[None] * len(legal)]


@pytest.mark.parametrize("golds", [["12", "1/2", "yes", r"\text{Evelyn}"], []])
def test_plain_golds_need_no_process(golds, monkeypatch):
    monkeypatch.setattr("agon.verifiers.golds.open_math_pool", lambda settings: pytest.fail("a process was started"))
    assert unreadable_golds(golds) == [None] * len(golds)


def test_a_gold_that_could_only_not_be_read_in_time_is_not_refused(monkeypatch):
    class SlowPool:
        def ask(self, messages):
            return [Reply("timeout", "took longer than 5 s", 5.0), Reply("error", "the process ended", 0.1)]

        def close(self):
            pass

    monkeypatch.setattr("agon.verifiers.golds.open_math_pool", lambda settings: SlowPool())
    assert unreadable_golds([r"\sqrt{2}", r"\sqrt{3}"]) == [None, None]
