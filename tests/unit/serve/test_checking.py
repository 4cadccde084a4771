from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from agon.records import Completion, Problem, Verdict
from agon.serve.checking import checked_in, verdict_of

COMPLETION = Completion((1,), (-0.5,), "<think>x</think>so<answer>2</answer>", "stop", "A", 0)


class NotingVerifier:
    def __init__(self):
        self.threads = []

    def verify(self, pairs, style):
        self.threads.append(threading.current_thread().name)
        return [Verdict("correct", 1.0, f"{problem.question} {style}") for problem, _ in pairs]

    def close(self):
        pass


def test_what_may_take_long_is_checked_in_a_thread_and_what_is_decided_at_once_is_not(make_job):
    main, long = threading.current_thread().name, replace(COMPLETION, text="1 " * 5000)
    verifier = NotingVerifier()

    async def check(kind, completion):
        job = make_job(problem=Problem(id="p", question="1+1", gold="2", task="t", verifier=kind))
        return await verdict_of(job, completion, checked)

    with ThreadPoolExecutor(1, thread_name_prefix="checks") as threads:
        checked = checked_in(threads, verifier)
        for kind, completion in (("math", COMPLETION), ("code", COMPLETION), ("exact", COMPLETION), ("exact", long)):
            verdict = asyncio.run(check(kind, completion))
            assert (verdict.outcome, verdict.reason) == ("correct", "1+1 tags")
    assert verifier.threads == ["checks_0", "checks_0", main, "checks_0"]


def test_a_verifier_that_forgets_its_verdict_is_its_own_failure(make_job):
    class Forgets(NotingVerifier):
        def verify(self, pairs, style):
            return []

    with ThreadPoolExecutor(1) as threads:
        verdict = asyncio.run(verdict_of(make_job(), COMPLETION, checked_in(threads, Forgets())))
    assert (verdict.outcome, verdict.answer, verdict.gold) == ("error", "2", "2")
    assert verdict.reason.startswith("ValueError")
