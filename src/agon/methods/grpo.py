"""GRPO: one adapter, one group of 2N completions a problem, no opponent. The baseline at the pair's rollout budget.

Paper: DeepSeekMath, arXiv:2402.03300.
"""

from __future__ import annotations

from agon.methods.solo import Solo


class Grpo(Solo):
    """Rewards each completion by itself; the loss and the normaliser are the recipe's."""

    name = "grpo"
