from __future__ import annotations

from collections.abc import Callable

import pytest

from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role: str, adapter: str, outcome: str, phi: float, num_tokens: int, stop: str) -> Attempt:
    completion = Completion(
        tuple(range(10, 10 + num_tokens)),
        (-0.5,) * num_tokens,
        "x",
        stop,
        adapter,
        0,  # type: ignore[arg-type]
    )
    return Attempt(role, adapter, Prompt((1, 2), "q"), completion, Verdict(outcome, 0.0), phi)  # type: ignore[arg-type]


@pytest.fixture
def make_match() -> Callable[..., Match]:
    """Return a function (draft outcome, challenge outcome, ...) -> match."""

    def make(draft="wrong", challenge=None, *, phi=1.0, tokens=(3, 4), stop="stop", sample=0):
        drafted = _attempt("drafter", "A", draft, phi, tokens[0], stop)
        if challenge is None:
            return Match(PROBLEM, sample, (drafted,))
        summary = Summary("s", is_empty=False, has_leak=False, num_withheld=1)
        return Match(
            PROBLEM, sample, (drafted,), (summary,), _attempt("challenger", "B", challenge, phi, tokens[1], stop)
        )

    return make
