"""What methods with an exchange share: a drafter and a challenger, one group each, roles swapping every step.

Paper: Agon, arXiv:2607.07690 (Algorithm 1, Eq. 2 and 3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from agon.errors import AgonError
from agon.methods.base import BaseMethod, Group, StepView, Stream
from agon.methods.solo import plain_rewards
from agon.records import Attempt, Lineup, Match, Reading, Role
from agon.rewards.terms import conversion_bonus


class Exchange(BaseMethod):
    """N drafts of each problem and one challenge to each. A subclass says what a challenger earns.

    `reads` and `shows_answer` are the line-up's; only the roles in `learned` give a stream.
    """

    reads: Reading = "own"
    shows_answer: bool = False
    learned: tuple[Role, ...] = ("drafter", "challenger")

    def lineup(self, step: int) -> Lineup:
        """A drafts in even steps (step 0 first), B in odd ones."""
        drafter, challenger = self.players(step)
        return Lineup(
            drafters=(drafter,),
            has_challenge=True,
            challenger=challenger,
            reads=self.reads,
            shows_answer=self.shows_answer,
        )

    def players(self, step: int) -> tuple[str, str]:
        """Name the drafter and the challenger of a step."""
        return ("A", "B") if step % 2 == 0 else ("B", "A")

    def matches_per_problem(self, group_size: int) -> int:
        """Play N matches of two rollouts."""
        return group_size

    def streams(self, matches: Sequence[Sequence[Match]], view: StepView) -> tuple[Stream, ...]:
        """Normalise drafts and challenges apart: one stream for each role that is learned from.

        Raises:
            AgonError: a role that should learn is played by the bare base.
        """
        adapters: dict[Role, str | None] = {
            "drafter": view.lineup.drafters[0],
            "challenger": view.lineup.challenger,
        }
        groups = {
            "drafter": tuple(self._draft_group(of_problem, view) for of_problem in matches),
            "challenger": tuple(self._challenge_group(of_problem, view) for of_problem in matches),
        }
        streams: list[Stream] = []
        for role in self.learned:
            adapter = adapters[role]
            if adapter is None:
                raise AgonError(f"{self.name} trains the {role}, but the bare base plays it: name an adapter")
            streams.append(Stream(adapter=adapter, role=role, groups=groups[role]))
        return tuple(streams)

    def draft_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward the drafts of one problem by Eq. 2; there is no opponent term in a drafter's reward."""
        return plain_rewards([match.draft for match in matches], view)

    @abstractmethod
    def challenge_rewards(self, matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
        """Reward the challenges of one problem."""

    def _draft_group(self, matches: Sequence[Match], view: StepView) -> Group:
        return Group(tuple(match.draft for match in matches), self.draft_rewards(matches, view))

    def _challenge_group(self, matches: Sequence[Match], view: StepView) -> Group:
        read = [matches[0] if self.reads == "shared" else match for match in matches]
        return Group(
            tuple(challenge_of(match) for match in matches),
            self.challenge_rewards(matches, view),
            strata=tuple(int(match.draft.is_correct) for match in read),
        )


def challenge_of(match: Match) -> Attempt:
    """Return the challenge of a match that has one."""
    assert match.challenge is not None, "every match of an exchange has a challenge"
    return match.challenge


def cooperative_rewards(matches: Sequence[Match], view: StepView) -> tuple[float, ...]:
    """Reward challenges by Eq. 2, without an opponent term."""
    return plain_rewards([challenge_of(match) for match in matches], view)


def conversion_rewards(matches: Sequence[Match], rivals: Sequence[Match], view: StepView) -> tuple[float, ...]:
    """Reward challenges by Eq. 3: Eq. 2 and the bonus over the draft of `rivals[i]`, which is challenge i's own in Agon."""
    return tuple(
        reward + bonus_over(match, rival, view)
        for reward, match, rival in zip(cooperative_rewards(matches, view), matches, rivals, strict=True)
    )


def bonus_over(match: Match, rival: Match, view: StepView) -> float:
    """Return the conversion bonus of a match's challenge over the draft of `rival`."""
    if not is_beatable(rival):
        return 0.0
    return conversion_bonus(challenge_of(match).is_correct, rival.draft.is_correct, view.weights)


def is_beatable(rival: Match) -> bool:
    """Tell whether a draft counts as a rival: one without a verdict, or without a summary, was not beaten by anyone.

    Where nobody reads drafts there are no summaries; a truncated draft would have left none.
    """
    left_none = rival.summaries[0].is_empty if rival.summaries else rival.draft.completion.is_truncated
    return not (rival.draft.verdict.is_masked or left_none)
