import pytest

from agon.verifiers.pool import Reply
from agon.verifiers.processes import LazyPool, verdict_on_answer


class FakePool:
    is_closed = False

    def close(self):
        self.is_closed = True


def test_a_pool_is_opened_once_when_needed_and_anew_after_it_was_closed():
    made = []

    def open_pool():
        made.append(FakePool())
        return made[-1]

    lazy = LazyPool(open_pool)
    lazy.close()
    assert (made, lazy.is_open) == ([], False)
    assert lazy.get() is lazy.get() is made[0]
    lazy.close()
    assert (made[0].is_closed, lazy.is_open) == (True, False)
    assert lazy.get() is made[1]


@pytest.mark.parametrize(
    ("said", "outcome", "score"),
    [
        ("correct", "correct", 1.0),
        ("wrong", "wrong", 0.0),
        ("unparsed", "unparsed", 0.0),
        ("timeout", "timeout", 0.0),
        ("error", "error", 0.0),
        ("truncated", "error", 0.0),
        ("nonsense", "error", 0.0),
    ],
)
def test_what_is_no_outcome_of_an_answer_is_the_checkers_own_failure(said, outcome, score):
    verdict = verdict_on_answer(Reply(said, "why", 0.1), "2", "3")
    assert (verdict.outcome, verdict.score, verdict.reason) == (outcome, score, "why")
    assert (verdict.answer, verdict.gold) == ("2", "3")
