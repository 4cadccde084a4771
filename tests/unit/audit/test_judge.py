from __future__ import annotations

import threading

import pytest

from agon.audit.judge import Check, judge_each, written
from agon.config import VerifierSettings
from agon.errors import VerifierError
from agon.records import Problem
from agon.verifiers.registry import Verifiers


def check(gold, answer, source=None, verifier="math"):
    problem = Problem("id", "q", gold, "t", verifier)
    return Check(problem, written(rf"\boxed{{{answer}}}"), "boxed", source)


def judged_of(checks, **settings):
    found = {}

    def on_judged(place, one):
        found[place] = one

    judge_each(checks, VerifierSettings(**settings), on_judged)
    return [found[place] for place in sorted(found)]


def test_each_check_gets_its_own_verdict_in_its_place():
    judged = judged_of((check(str(i), str(i + i % 2), source=i) for i in range(20)), workers=2)
    assert [one.check.source for one in judged] == list(range(20))
    assert [one.verdict.is_correct for one in judged] == [i % 2 == 0 for i in range(20)]


def test_the_start_of_a_checking_process_is_not_counted():
    # loading sympy takes seconds, comparing two short sums milliseconds
    (first, *_) = judged = judged_of([check("y+x", "x+y"), check("a+b", "b+a"), check("a+c", "c+a")], workers=1)
    assert all(one.verdict.is_correct for one in judged)
    assert first.seconds < 10 * max(one.seconds for one in judged[1:]) + 0.4


def test_verdicts_are_told_one_at_a_time():
    inside = threading.Lock()

    def on_judged(place, one):
        assert inside.acquire(blocking=False)
        inside.release()

    judge_each([check(str(i), "1") for i in range(50)], VerifierSettings(workers=4), on_judged)


def test_a_source_of_checks_that_fails_ends_all():
    def checks():
        yield check("1", "1")
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        judged_of(checks(), workers=2)


def test_an_interrupt_between_verdicts_ends_all():
    def on_judged(place, one):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_each((check(str(i), "1") for i in range(1000)), VerifierSettings(workers=2), on_judged)


def test_without_isolation_programs_end_all_with_the_reason(monkeypatch):
    def refuse(verifiers):
        raise VerifierError("programs cannot be isolated here")

    monkeypatch.setattr(Verifiers, "check_error_share", refuse)
    with pytest.raises(VerifierError, match="cannot be isolated"):
        judged_of([check("1", "1")], workers=2)


def test_many_errors_are_counted_and_do_not_end_all():
    # no gold of these is a number, which is the checker's own fault
    judged = judged_of([check("many", "1", verifier="numeric") for _ in range(80)], workers=1)
    assert {one.verdict.outcome for one in judged} == {"error"}
