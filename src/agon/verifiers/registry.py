"""One border for every verifier: completions in, verdicts out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.errors import VerifierError
from agon.imported import imported_function, is_own, own_code
from agon.records import OUTCOMES, AnswerStyle, Completion, Problem, Verdict
from agon.secrecy import redact_text
from agon.verifiers.code import CodeChecker
from agon.verifiers.exact import check_exact
from agon.verifiers.expression import check_expression
from agon.verifiers.math import MathChecker
from agon.verifiers.numeric import check_numeric
from agon.verifiers.reasoning_gym import GymChecker

# Below this many checks a single failure would already be too large a share.
MIN_CHECKS = 50


class Verifiers:
    """Checks completions by the verifier that each problem names, and counts outcomes.

    Outcomes: a completion that reached its cap is `truncated`, whatever its text says; one without a finished answer is `unparsed`;
    a failure of the checker itself is `error`, never raised and never taken for wrong. Safe from any thread.
    """

    def __init__(self, settings: VerifierSettings) -> None:
        self._max_error_share = settings.max_error_share
        self._math = MathChecker(settings)
        self._code = CodeChecker(settings)
        self._gym = GymChecker(settings)
        self._counts: Counter[str] = Counter()
        self._last_error = ""
        self._lock = threading.Lock()

    def verify(self, pairs: Sequence[tuple[Problem, Completion]], style: AnswerStyle) -> list[Verdict]:
        """Return one verdict for each (problem, completion), in order."""
        answers = [
            None if completion.is_truncated else extract_answer(completion.text, style) for _, completion in pairs
        ]
        verdicts = [
            _check(problem, completion, answer) for (problem, completion), answer in zip(pairs, answers, strict=True)
        ]
        checks = {"math": self._check_math, "code": self._check_code, "reasoning-gym": self._check_gym}
        for name, check in checks.items():
            waiting = [
                (i, problem, answer)
                for i, ((problem, _), answer) in enumerate(zip(pairs, answers, strict=True))
                if answer is not None and verdicts[i] is None and problem.verifier == name
            ]
            checked = check([(problem, answer) for _, problem, answer in waiting]) if waiting else []
            for (i, _, _), verdict in zip(waiting, checked, strict=True):
                verdicts[i] = verdict
        done = [verdict for verdict in verdicts if verdict is not None]
        assert len(done) == len(pairs), "every pair has its verdict"
        self._count(done)
        return done

    def verify_programs(self, jobs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        """Return one verdict for each (code problem, whole program), in order: nothing is extracted."""
        verdicts = self._check_code(jobs)
        self._count(verdicts)
        return verdicts

    @property
    def outcome_counts(self) -> dict[str, int]:
        """How often each outcome occurred so far."""
        with self._lock:
            return dict(self._counts)

    @property
    def num_checked(self) -> int:
        """Verdicts given so far."""
        return sum(self.outcome_counts.values())

    @property
    def num_errors(self) -> int:
        """Verdicts that failed by the checker's own fault."""
        return self.outcome_counts.get("error", 0)

    def check_error_share(self) -> None:
        """Make sure that verdicts can be trusted.

        Raises:
            VerifierError: of at least `MIN_CHECKS` checks, more than `verifier.max_error_share` failed by the checker's own fault; or
                programs cannot be run on this machine at all.
        """
        if self._code.refusal:
            raise VerifierError(self._code.refusal)
        checked, errors = self.num_checked, self.num_errors
        if checked >= MIN_CHECKS and errors > self._max_error_share * checked:
            raise VerifierError(
                f"{errors} of {checked} checks failed by the checker's own fault (last: {self._last_error}); "
                f"verifier.max_error_share allows {self._max_error_share:g}: mend the cause, or raise the limit"
            )

    def close(self) -> None:
        """End worker processes."""
        self._math.close()
        self._code.close()
        self._gym.close()

    def _check_math(self, jobs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        try:
            return self._math.check([(problem.gold, answer) for problem, answer in jobs])
        except Exception as error:  # as in _check
            return [_failure(problem.gold, answer, error) for problem, answer in jobs]

    def _check_code(self, jobs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        try:
            return self._code.check(jobs)
        except Exception as error:  # as in _check
            return [_failure(None, program, error) for _, program in jobs]

    def _check_gym(self, jobs: Sequence[tuple[Problem, str]]) -> list[Verdict]:
        try:
            return self._gym.check(jobs)
        except Exception as error:  # as in _check
            return [_failure(problem.gold, answer, error) for problem, answer in jobs]

    def _count(self, verdicts: list[Verdict]) -> None:
        with self._lock:
            for verdict in verdicts:
                self._counts[verdict.outcome] += 1
                if verdict.outcome == "error":
                    self._last_error = verdict.reason


def open_verifiers(settings: VerifierSettings) -> Verifiers:
    """Open the checkers. Worker processes start with the first answer that needs one."""
    return Verifiers(settings)


def _check(problem: Problem, completion: Completion, answer: str | None) -> Verdict | None:
    """The verdict, None for an answer that has to be decided in a checking process."""
    gold = None if problem.verifier == "code" else problem.gold
    if completion.is_truncated:
        return Verdict("truncated", 0.0, "the cap on tokens was reached", gold=gold)
    if answer is None:
        missing = "no program" if problem.verifier == "code" else "no finished answer"
        return Verdict("unparsed", 0.0, missing, gold=gold)
    try:
        match problem.verifier:
            case "math" | "code" | "reasoning-gym":
                return None
            case "expression":
                return check_expression(problem, answer)
            case "numeric":
                return check_numeric(problem.gold, answer)
            case "exact":
                return check_exact(problem.gold, answer)
            case name if is_own(name):
                return _check_own(problem, answer)
            case _:
                return Verdict("error", 0.0, f"no verifier is called {problem.verifier!r}", answer, problem.gold)
    except Exception as error:  # whatever fails here is the checker's own fault, and becomes a counted outcome
        return _failure(problem.gold, answer, error)


def _check_own(problem: Problem, answer: str) -> Verdict:
    judge = imported_function("task.verifier", problem.verifier)
    with own_code():
        verdict = judge(problem, answer)
    if not isinstance(verdict, Verdict):
        raise TypeError(f"{problem.verifier} returned {verdict!r}, and no Verdict")
    if verdict.outcome not in OUTCOMES or verdict.score != float(verdict.is_correct):
        raise ValueError(
            f"{problem.verifier} returned the outcome {verdict.outcome!r} with the score {verdict.score!r}: a right answer has "
            '"correct" and 1.0, any other 0.0'
        )
    # They are kept as JSON, hours later.
    texts: list[object] = [verdict.reason, verdict.answer or "", verdict.gold or ""]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{problem.verifier} returned a reason, answer or gold that is no text")
    return verdict


def _failure(gold: str | None, answer: str, error: Exception) -> Verdict:
    # It is kept with the match.
    return Verdict("error", 0.0, redact_text(f"{type(error).__name__}: {error}"[:2000])[:200], answer, gold)
