"""LCPO: a right answer earns more the nearer its length is to a target, which the prompt states where the wording can say it.

The paper draws a target for each prompt; here it is `reward.length_target` for all. `plain-v1` states it. `symbols-v1` has no words
for it: the term then works with a target that nobody is told.
Paper: L1, arXiv:2503.04697.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agon.errors import ConfigError
from agon.methods.base import StepView
from agon.methods.solo import Solo
from agon.records import Attempt
from agon.rewards.length import lcpo_exact, lcpo_max


class LcpoExact(Solo):
    """GRPO that should use as many tokens as the target: c - alpha |n* - n| in the place of c."""

    name = "lcpo-exact"
    signal = "reward"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward the shaped correctness, and format as ever."""
        return _rewards(lcpo_exact, attempts, view)


class LcpoMax(Solo):
    """GRPO that should use no more tokens than the target: c clip(alpha (n* - n) + 0.5, 0, 1) in the place of c."""

    name = "lcpo-max"
    signal = "reward"

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward the shaped correctness, and format as ever."""
        return _rewards(lcpo_max, attempts, view)


def _rewards(shape: Callable[..., float], attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
    own = view.weights
    if own.length_target is None:
        raise ConfigError(
            "reward.length_target is not set, but lcpo-exact and lcpo-max aim at it: give a number of tokens"
        )
    return tuple(
        own.correctness
        * shape(attempt.is_correct, attempt.completion.num_tokens, target=own.length_target, alpha=own.length_alpha)
        + own.format * attempt.format_score
        for attempt in attempts
    )
