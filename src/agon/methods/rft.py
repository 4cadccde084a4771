"""Online rejection fine-tuning: the likelihood of right completions is raised, nothing is pushed down.

Each step samples 2N completions of each problem and takes one step on the mean negative log-likelihood of the tokens of the right
ones. Easy problems would dominate: at most `reward.max_right` of a problem count, N/2 where that is not set, completions that say
the same counting once. There is no restart from the base between rounds, unlike in RFT and STaR.
Paper: RFT, arXiv:2308.01825; ReST-EM (the cap), arXiv:2312.06585.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from agon.methods.base import StepView
from agon.methods.solo import Solo
from agon.records import Attempt


class Rft(Solo):
    """Advantage 1 for the right completions that count, and no other completion in the mean."""

    name = "rft"
    fixed = MappingProxyType({"loss": "dapo", "advantage": "none"})

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Pay 1 for each of the first right and distinct completions, up to the cap."""
        most = view.weights.max_right or max(len(attempts) // 4, 1)
        counted: set[str] = set()
        rewards: list[float] = []
        for attempt in attempts:
            text = attempt.completion.text.strip()
            counts = attempt.is_correct and text not in counted and len(counted) < most
            if counts:
                counted.add(text)
            rewards.append(float(counts))
        return tuple(rewards)
