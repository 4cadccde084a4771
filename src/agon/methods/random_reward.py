"""Random reward: Agon with a fair coin in place of every verdict. No gain counts that this control shares.

Format is paid as ever, and what the checker could not judge stays masked. Accuracy in the metrics is that of the true verdicts.
Paper: some bases are reported to improve under such rewards (Spurious Rewards, arXiv:2506.10947).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agon.methods.agon import Agon
from agon.methods.base import Group, StepView, Stream
from agon.methods.exchange import challenge_of
from agon.records import Attempt, Match
from agon.seeding import python_rng


class RandomReward(Agon):
    """Agon's rewards for coins."""

    name = "random-reward"

    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Reward by the coins; the groups hold the attempts with their true verdicts."""
        tossed = [[_toss(match, view) for match in of_problem] for of_problem in matches]
        rewarded = super().streams(tossed, view)
        true = {
            "drafter": [[match.draft for match in of_problem] for of_problem in matches],
            "challenger": [[challenge_of(match) for match in of_problem] for of_problem in matches],
        }
        return tuple(
            replace(
                stream,
                groups=tuple(
                    _restore(group, attempts) for group, attempts in zip(stream.groups, true[stream.role], strict=True)
                ),
            )
            for stream in rewarded
        )


def _toss(match: Match, view: StepView) -> Match:
    drafts = tuple(_with_coin(draft, match, view) for draft in match.drafts)
    return replace(match, drafts=drafts, challenge=_with_coin(challenge_of(match), match, view))


def _with_coin(attempt: Attempt, match: Match, view: StepView) -> Attempt:
    if attempt.verdict.is_masked:
        return attempt
    rng = python_rng(view.seed, "coin", view.step, match.problem.id, attempt.role, match.sample)
    outcome = "correct" if rng.random() < 0.5 else "wrong"
    return replace(attempt, verdict=replace(attempt.verdict, outcome=outcome))


def _restore(group: Group, attempts: Sequence[Attempt]) -> Group:
    return replace(group, attempts=tuple(attempts), is_right=tuple(attempt.is_correct for attempt in group.attempts))
