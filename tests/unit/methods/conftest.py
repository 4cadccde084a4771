from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agon.methods.base import StepView, Stream
from agon.methods.registry import method_named
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.rewards.terms import RewardWeights

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")
NAMES = {0: "wrong", 1: "correct"}


def attempt(role, adapter, outcome, phi=1.0, num_tokens=1, text="x") -> Attempt:
    """An attempt with outcome 0, 1 or a name."""
    completion = Completion((1,) * num_tokens, (-0.1,) * num_tokens, text, "stop", adapter, 0)
    return Attempt(role, adapter, Prompt((1,), "q"), completion, Verdict(NAMES.get(outcome, outcome), 0.0), phi)


@pytest.fixture
def make_match() -> Callable[..., Match]:
    """Return a function (outcome of the draft, outcome of the challenge) -> match."""

    def make(a, b, *, phi_a=1.0, phi_b=1.0, tokens=(1, 1), empty=False, sample=0, drafter="A", challenger="B"):
        return Match(
            PROBLEM,
            sample,
            (attempt("drafter", drafter, a, phi_a, tokens[0]),),
            (Summary("s", is_empty=empty, has_leak=False, num_withheld=0),),
            attempt("challenger", challenger, b, phi_b, tokens[1]),
        )

    return make


@pytest.fixture
def make_draft() -> Callable[..., Match]:
    """Return a function (outcome) -> match of one draft and no challenge."""

    def make(a, *, phi=1.0, num_tokens=1, text="x", sample=0):
        return Match(PROBLEM, sample, (attempt("drafter", "A", a, phi, num_tokens, text),))

    return make


@pytest.fixture
def streams_of() -> Callable[..., tuple[Stream, ...]]:
    """Return a function (method's name, matches of one problem) -> its streams."""

    def streams(name: str, matches: Sequence[Match], weights=RewardWeights(), *, step=0, seed=0, cap=100):  # noqa: B008
        method = method_named(name)
        view = StepView(step, seed, method.lineup(step), weights, {"drafter": cap, "challenger": cap})
        return method.streams([matches], view)

    return streams


@pytest.fixture
def rewards_of(streams_of) -> Callable[..., list[tuple[float, ...]]]:
    """Return a function (method's name, matches of one problem) -> the rewards of each stream's first group."""

    def rewards(*args, **options):
        return [stream.groups[0].rewards for stream in streams_of(*args, **options)]

    return rewards
