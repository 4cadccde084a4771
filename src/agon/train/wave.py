"""A step's matches: one wave of problems, or, for a method that resamples, waves until the step is full of groups with a signal.

Paper: DAPO, arXiv:2503.14476 (dynamic sampling).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agon.config import Settings, TrainSettings
from agon.errors import ConfigError
from agon.match.play import Sampling, play
from agon.match.session import Session
from agon.methods.base import BaseMethod, StepView
from agon.records import Match, Problem
from agon.train.order import order_seed, problems_from
from agon.train.state import Progress
from agon.train.update import credit

# What a step has found by then must do: where hardly any problem has a signal, one step would use up the run.
MAX_WAVES = 10


class Played(NamedTuple):
    """A step's matches, problem by problem: those to learn from, and those of problems drawn in vain."""

    kept: list[list[Match]]
    discarded: list[list[Match]]

    @property
    def matches(self) -> list[list[Match]]:
        """Everything that was sampled."""
        return [*self.kept, *self.discarded]

    def after(self, before: Progress) -> Progress:
        """Return how far the training is once the step is done. Every rollout is charged, learned from or not."""
        return Progress(
            completed_steps=before.completed_steps + 1,
            problems_consumed=before.problems_consumed + len(self.matches),
            rollouts_generated=before.rollouts_generated + count_rollouts(self.matches),
            rollouts_discarded=before.rollouts_discarded + count_rollouts(self.discarded),
        )


def play_step(
    session: Session,
    problems: Sequence[Problem],
    method: BaseMethod,
    *,
    settings: Settings,
    progress: Progress,
    view: StepView,
) -> Played:
    """Play the next step's matches, from the place in the order of problems that `progress` has come to.

    A method that resamples draws as many further problems as there are groups missing, so that none with a signal is thrown away;
    it stops when the step is full, the run's problems are used up, or after `MAX_WAVES` waves.

    Raises:
        ConfigError: the method's matches are not 2N rollouts of each problem.
        EngineError, VerifierError: as `play`.
    """
    own = settings.train
    kept: list[list[Match]] = []
    discarded: list[list[Match]] = []
    for wave in range(MAX_WAVES if method.resamples else 1):
        drawn = len(kept) + len(discarded)
        count = min(own.problems_per_step - len(kept), progress.left(own) - drawn)
        if count == 0:
            break
        matches = play(
            session,
            problems_from(problems, progress.problems_consumed + drawn, count=count, seed=order_seed(own)),
            view.lineup,
            samples=method.matches_per_problem(own.group_size),
            sampling=sampling_of(settings),
            seed=own.seed,
            # A problem that comes again, in a later epoch but the same step, is sampled anew.
            stream=("train", view.step, "wave", wave) if wave else ("train", view.step),
        )
        check_budget(matches, group_size=own.group_size)
        for of_problem in matches:
            is_kept = not method.resamples or _has_signal(of_problem, method, view, own=own)
            (kept if is_kept else discarded).append(of_problem)
    return Played(kept, discarded)


def check_budget(matches: Sequence[Sequence[Match]], *, group_size: int) -> None:
    """Check that exactly 2N rollouts of each problem were sampled, whatever the method learns from.

    Raises:
        ConfigError: they were not, so that methods could not be compared.
    """
    for of_problem in matches:
        num_rollouts = count_rollouts([of_problem])
        if num_rollouts != 2 * group_size:
            raise ConfigError(
                f"the step sampled {num_rollouts} rollouts of a problem, but the budget is 2N = {2 * group_size} each: mend "
                "matches_per_problem or lineup of the method"
            )


def count_rollouts(matches: Sequence[Sequence[Match]]) -> int:
    """Count the completions of some matches."""
    return sum(len(match.attempts) for of_problem in matches for match in of_problem)


def sampling_of(settings: Settings) -> Sampling:
    """Return how completions are sampled while training."""
    own = settings.rollout
    return Sampling(
        max_draft_tokens=own.max_draft_tokens,
        max_challenge_tokens=own.max_challenge_tokens,
        max_summary_tokens=own.max_summary_tokens,
        temperature=own.temperature,
        top_p=own.top_p,
    )


def _has_signal(of_problem: list[Match], method: BaseMethod, view: StepView, *, own: TrainSettings) -> bool:
    """Tell whether anything would be learned from a problem."""
    earned = [credit(stream, method, own).credit for stream in method.streams([of_problem], view)]
    return any(one.num_dead_groups < len(one.groups) for one in earned)
