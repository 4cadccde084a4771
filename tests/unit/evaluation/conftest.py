"""Answers and matches without a model, made from who is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agon.records import Attempt, Completion, Match, Problem, Prompt, Role, Summary, Verdict

PROBLEM = Problem(id="p", question="q", gold="1", task="t", verifier="exact")


def _attempt(answer: str | None, *, role: Role = "drafter", outcome: str | None = None, num_tokens: int = 1) -> Attempt:
    outcome = outcome or ("unparsed" if answer is None else "correct" if answer == "1" else "wrong")
    return Attempt(
        role,
        "A",
        Prompt((1,), "q"),
        Completion((1,) * num_tokens, (-0.1,) * num_tokens, "x", "stop", "A", 0),
        Verdict(outcome, 0.0, answer=answer),  # type: ignore[arg-type]
        1.0,
    )


def _match(draft: Attempt, challenge: str | None, *, has_leak: bool = False) -> Match:
    summary = Summary("s", is_empty=False, has_leak=has_leak, num_withheld=1)
    return Match(PROBLEM, 0, (draft,), (summary,), _attempt(challenge, role="challenger"))


@pytest.fixture(scope="session")
def attempt() -> Callable[..., Attempt]:
    """(answer, outcome=, num_tokens=) -> attempt; the answer "1" is right, None is none."""
    return _attempt


@pytest.fixture(scope="session")
def exchange() -> Callable[..., Match]:
    """(draft, a challenger's answer, has_leak=) -> match."""
    return _match


@pytest.fixture(scope="session")
def table() -> Callable[..., tuple[list[list[Match]], list[list[Attempt]]]]:
    """(draft, challenge, alone) answers, one problem each -> matches, and the answers beside them."""

    def make(*rows):
        matches = [[_match(_attempt(draft), challenge)] for draft, challenge, _ in rows]
        return matches, [[_attempt(alone)] for *_, alone in rows]

    return make


@pytest.fixture(scope="session")
def answers() -> Callable[..., list[list[Attempt]]]:
    """One row of right and wrong a problem -> attempts."""

    def make(rows: Sequence[Sequence[bool]], *, num_tokens: int = 3):
        return [[_attempt("1" if right else "7", num_tokens=num_tokens) for right in row] for row in rows]

    return make
