import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from agon.config import TaskSettings, VerifierSettings
from agon.records import Completion
from agon.tasks.loader import load_task
from agon.verifiers.pool import module_command, worker_environment
from agon.verifiers.reasoning_gym import MAX_CHARS, GymChecker
from agon.verifiers.registry import open_verifiers

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None,
    reason="reasoning-gym is an extra: one of its dependencies (pycosat) has to be compiled",
)


@pytest.fixture(scope="module")
def problems():
    data = load_task(TaskSettings(name="reasoning-gym/count_primes", num_generated=12))
    return [problem for split in data.splits.values() for problem in split]


@pytest.fixture(scope="module")
def checker():
    checker = GymChecker(VerifierSettings(workers=1))
    yield checker
    checker.close()


def can_confine():
    code = "from agon.verifiers.sandbox import confine_this_process as c; c(memory_mb=1024, is_unsafe_allowed=False)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def outcomes(checker, pairs):
    return [verdict.outcome for verdict in checker.check(pairs)]


def test_a_problems_own_answer_scores_one(checker, problems):
    assert set(outcomes(checker, [(problem, problem.gold) for problem in problems])) == {"correct"}


def test_a_share_of_the_score_is_wrong(checker, problems):
    # the family pays len(gold) / len(answer) for an answer that holds the gold
    verdicts = checker.check([(problem, f"1 {problem.gold}") for problem in problems])
    assert {verdict.outcome for verdict in verdicts} == {"wrong"}
    first = len(problems[0].gold)
    assert verdicts[0].reason == f"score {first / (first + 2):.3g}"
    assert {verdict.score for verdict in verdicts} == {0.0}


def test_other_answers_are_wrong(checker, problems):
    texts = ["", "-1", "nan", "I do not know", "\x00", "[" * 3000, problems[0].question]
    assert set(outcomes(checker, [(problems[0], text) for text in texts])) == {"wrong"}


def test_a_problem_that_the_package_makes_otherwise_is_an_error_and_not_a_wrong_answer(checker, problems):
    from dataclasses import replace

    moved = replace(problems[0], details={**problems[0].details, "seed": 99})
    (verdict,) = checker.check([(moved, moved.gold)])
    assert (verdict.outcome, verdict.reason) == ("error", "another version of reasoning-gym made this problem")


def test_an_answer_too_long_is_not_read(checker, problems):
    (verdict,) = checker.check([(problems[0], "1" * (MAX_CHARS + 1))])
    assert verdict.outcome == "unparsed"
    assert len(verdict.answer) == MAX_CHARS


def test_the_verifiers_border_takes_the_answer_out_of_a_completion(problems):
    verifiers = open_verifiers(VerifierSettings(workers=1))
    texts = [rf"\boxed{{{problems[0].gold}}}", r"\boxed{-5}", "no box"]
    try:
        pairs = [(problems[0], Completion((), (), text, "stop", None, 0)) for text in texts]
        assert [verdict.outcome for verdict in verifiers.verify(pairs, "boxed")] == ["correct", "wrong", "unparsed"]
    finally:
        verifiers.close()


@pytest.mark.skipif(not sys.platform.startswith("linux") or not can_confine(), reason="this system cannot confine")
def test_the_scoring_process_is_confined_although_its_libraries_start_threads():
    command = module_command("agon.verifiers.reasoning_gym_worker", 2048, 5.0)
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=worker_environment())
    try:
        assert worker.stdout.readline() == b'{"ready": true}\n'
        status = Path(f"/proc/{worker.pid}/status").read_text()
        # 2 is a filter of system calls
        assert "Seccomp:\t2\n" in status
        assert "NoNewPrivs:\t1\n" in status
    finally:
        worker.kill()
        worker.communicate()
