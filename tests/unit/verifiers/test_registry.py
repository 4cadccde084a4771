import re
import sys
from types import SimpleNamespace

import pytest

from agon.config import VerifierSettings
from agon.errors import VerifierError
from agon.records import Completion, Problem, Verdict
from agon.verifiers import registry
from agon.verifiers.math import MathChecker
from agon.verifiers.registry import open_verifiers


@pytest.fixture(scope="module")
def math_checker():
    made = MathChecker(VerifierSettings(timeout_s=2.0, workers=1))
    yield made
    made.close()


@pytest.fixture
def verifiers(math_checker):
    """Fresh counts on processes that are started once."""
    made = open_verifiers(VerifierSettings())
    made._math = math_checker
    return made


def problem(verifier, gold="12", **details):
    return Problem("id", "q", gold, "t", verifier, details=details)


def completion(text, stop_reason="stop"):
    return Completion((1,), (0.0,), text, stop_reason, "A", 0)


def test_each_outcome_is_given_and_counted_once(verifiers):
    pairs = [
        (problem("math"), completion(r"\boxed{12}")),
        (problem("math"), completion(r"\boxed{13}")),
        (problem("math"), completion("no answer")),
        (problem("math"), completion(r"\boxed{12}", "length")),
        (problem("math"), completion(r"\boxed{|9^{9^{9^9}} - 5|}")),
        (problem("astrology"), completion(r"\boxed{12}")),
    ]
    verdicts = verifiers.verify(pairs, "boxed")
    outcomes = ["correct", "wrong", "unparsed", "truncated", "timeout", "error"]
    assert [verdict.outcome for verdict in verdicts] == outcomes
    assert verifiers.outcome_counts == dict.fromkeys(outcomes, 1)
    assert (verifiers.num_checked, verifiers.num_errors) == (6, 1)
    assert [verdict.score for verdict in verdicts] == [1.0, 0, 0, 0, 0, 0]
    assert all(verdict.gold == "12" and verdict.reason for verdict in verdicts)


def test_a_verifier_of_ones_own_decides_and_its_failures_are_errors(verifiers, monkeypatch):
    def judge(problem, answer):
        if answer == "yes":
            return True
        return Verdict("correct", 1.0, f"longer than {problem.details['least']}", answer, problem.gold)

    monkeypatch.setitem(sys.modules, "mine_judging", SimpleNamespace(judge=judge))
    own = problem("mine_judging:judge", least=2)
    answers = ["<answer>abc</answer>", "<answer>yes</answer>", "no answer"]
    pairs = [(own, completion(answer)) for answer in answers]
    verdicts = verifiers.verify([*pairs, (problem("mine_judging:judge"), completion("<answer>abc</answer>"))], "tags")
    assert [verdict.outcome for verdict in verdicts] == ["correct", "error", "unparsed", "error"]
    assert verdicts[0].reason == "longer than 2"
    assert "returned True, and no Verdict" in verdicts[1].reason
    assert verdicts[3].reason == "KeyError: 'least'"


def _quit(problem, answer):
    sys.exit(0)


def _leak(problem, answer):
    raise ValueError(f"hf_{'a' * 34} was refused")


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (lambda problem, answer: Verdict("correct", float("nan")), "the score nan"),
        (lambda problem, answer: Verdict("wrong", 1.0), "'wrong' with the score 1.0"),
        (_quit, r"it called sys.exit\(0\)"),
        (_leak, r"ValueError: \[redacted\] was refused"),
    ],
)
def test_what_is_no_whole_verdict_is_an_error_that_can_be_kept(verifiers, monkeypatch, judge, reason):
    monkeypatch.setitem(sys.modules, "mine_judging", SimpleNamespace(judge=judge))
    (verdict,) = verifiers.verify([(problem("mine_judging:judge"), completion("<answer>abc</answer>"))], "tags")
    assert verdict.outcome == "error"
    assert re.search(reason, verdict.reason), verdict.reason


def test_the_problem_names_its_verifier(verifiers):
    pairs = [
        (problem("numeric", "1234"), completion("<answer>1,234 eggs</answer>")),
        (problem("exact", "Paris"), completion("<answer>paris</answer>")),
        (problem("math", r"\frac{1}{2}"), completion("<answer>0.5</answer>")),
        (problem("expression", numbers=[12, 7, 5], target=25), completion("<answer>(12-7)*5</answer>")),
        (problem("numeric", "1234"), completion("<answer>1235</answer>")),
    ]
    outcomes = [verdict.outcome for verdict in verifiers.verify(pairs, "tags")]
    assert outcomes == ["correct", "correct", "correct", "correct", "wrong"]


def test_math_verdicts_keep_the_order_of_the_pairs(verifiers):
    pairs = [
        (problem("math" if n % 2 else "numeric", str(n)), completion(rf"\boxed{{{n - n % 3}}}")) for n in range(30)
    ]
    outcomes = [verdict.outcome for verdict in verifiers.verify(pairs, "boxed")]
    assert outcomes == ["correct" if n % 3 == 0 else "wrong" for n in range(30)]


def test_nothing_in_the_reasoning_counts(verifiers):
    texts = [r"<think>\boxed{12}</think> other text", r"<think>\boxed{12}</think> \boxed{13}", r"<think> \boxed{12}"]
    verdicts = verifiers.verify([(problem("numeric"), completion(text)) for text in texts], "boxed")
    assert [verdict.outcome for verdict in verdicts] == ["unparsed", "wrong", "unparsed"]


def test_no_pairs_give_no_verdicts(verifiers):
    assert verifiers.verify([], "tags") == []


def test_a_failing_checker_is_an_error_with_its_reason(verifiers, monkeypatch):
    def broken(*args):
        raise RuntimeError("the checker is broken")

    monkeypatch.setattr(registry, "check_numeric", broken)
    monkeypatch.setattr(verifiers._math, "check", broken)
    pairs = [(problem("numeric"), completion(r"\boxed{12}")), (problem("math"), completion(r"\boxed{12}"))]
    for verdict in verifiers.verify(pairs, "boxed"):
        assert verdict.outcome == "error"
        assert verdict.is_masked
        assert verdict.reason == "RuntimeError: the checker is broken"


def test_too_many_errors_stop_a_run(verifiers):
    good, bad = (problem("numeric"), completion(r"\boxed{12}")), (problem("astrology"), completion(r"\boxed{12}"))
    verifiers.verify([bad] * 10, "boxed")
    verifiers.check_error_share()  # too few checks to say
    verifiers.verify([good] * 190, "boxed")
    verifiers.check_error_share()  # 10 of 200: as many as allowed
    verifiers.verify([bad], "boxed")
    with pytest.raises(VerifierError, match=r"11 of 201 checks failed .*no verifier is called 'astrology'") as caught:
        verifiers.check_error_share()
    assert "\n" not in str(caught.value)


class FakeCode:
    """Takes every program with `right` in it for correct."""

    def __init__(self):
        self.refusal = ""

    def check(self, jobs):
        return [Verdict("correct" if "right" in code else "wrong", 0.0, "ran", code) for _, code in jobs]

    def close(self):
        pass


def test_programs_are_taken_out_of_completions_or_given_whole(verifiers):
    verifiers._code = FakeCode()
    pairs = [
        (problem("code"), completion("```python\nright = 1\n```")),
        (problem("math"), completion("no box")),
        (problem("code"), completion("no program")),
        (problem("code"), completion("```python\nright = 1", "length")),
        (problem("code"), completion("```python\nx = 1\n```")),
    ]
    verdicts = verifiers.verify(pairs, "code")
    assert [verdict.outcome for verdict in verdicts] == ["correct", "unparsed", "unparsed", "truncated", "wrong"]
    assert verdicts[0].answer == "right = 1\n"
    assert verdicts[2].reason == "no program"
    assert [verdict.outcome for verdict in verifiers.verify_programs([(problem("code"), "right")])] == ["correct"]
    assert verifiers.outcome_counts == {"correct": 2, "wrong": 1, "unparsed": 2, "truncated": 1}


def test_a_machine_that_cannot_run_programs_stops_a_run_at_once(verifiers):
    verifiers._code = FakeCode()
    verifiers.check_error_share()
    verifiers._code.refusal = "programs cannot be isolated here"
    with pytest.raises(VerifierError, match="cannot be isolated here"):
        verifiers.check_error_share()


def test_a_failing_code_checker_is_an_error_and_not_raised(verifiers):
    class Broken(FakeCode):
        def check(self, jobs):
            raise OSError("no more processes")

    verifiers._code = Broken()
    (verdict,) = verifiers.verify([(problem("code"), completion("```python\nx = 1\n```"))], "code")
    assert (verdict.outcome, verdict.reason) == ("error", "OSError: no more processes")
