"""GRPO-LEAD: right answers earn more when short among the right ones, wrong ones lose, and hard problems weigh more.

Paper: arXiv:2504.09696.
"""

from __future__ import annotations

from collections.abc import Sequence

from agon.methods.base import Group, StepView
from agon.methods.solo import Solo
from agon.records import Attempt
from agon.rewards.length import lead_factors, lead_terms


class GrpoLead(Solo):
    """GRPO with a length-shaped correctness and a logistic weight of the group's share of right answers."""

    name = "grpo-lead"
    signal = "reward"

    def groups(self, attempts: Sequence[Attempt], view: StepView) -> tuple[Group, ...]:
        """Make one group of a problem's drafts, weighted by how hard it is."""
        graded = [attempt.is_correct for attempt in attempts if not attempt.verdict.is_masked]
        factors = lead_factors(sum(graded) / len(graded)) if graded else (1.0, 1.0)
        return (Group(tuple(attempts), self.rewards(attempts, view), factors=factors),)

    def rewards(self, attempts: Sequence[Attempt], view: StepView) -> tuple[float, ...]:
        """Reward the shaped correctness (a wrong answer costs as much as a right one of mean length earns), and format as ever."""
        own = view.weights
        terms = lead_terms(
            [a.is_correct for a in attempts], [a.completion.num_tokens for a in attempts], alpha=own.lead_alpha
        )
        return tuple(
            own.correctness * term + own.format * attempt.format_score
            for term, attempt in zip(terms, attempts, strict=True)
        )
