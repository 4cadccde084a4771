"""The training loop. One step: play the matches, reward them, let each adapter learn from its own stream, write it down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agon.config import Settings
from agon.errors import ConfigError, DivergedError
from agon.learner.learner import Learner
from agon.learner.report import UpdateReport
from agon.match.play import Sampling, play
from agon.match.session import Session
from agon.methods.base import BaseMethod, StepView, Stream
from agon.methods.registry import method_named
from agon.model.pair import AdapterPair
from agon.records import Lineup, Match, Problem
from agon.rewards.terms import RewardWeights
from agon.runs.folder import RunFolder
from agon.train.clock import StepClock
from agon.train.credit import Credited, credit_stream
from agon.train.interrupt import StopRequest
from agon.train.measure import metrics_row
from agon.train.order import order_seed, problems_of_step
from agon.train.parity import Parity
from agon.train.state import save_state
from agon.train.tracking import Tracker

OnStep = Callable[[int, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """How far a call of `train` came: steps completed, and whether a stop was asked for before the last."""

    completed_steps: int
    was_stopped: bool


def train(
    session: Session,
    learner: Learner,
    problems: Sequence[Problem],
    settings: Settings,
    run: RunFolder,
    *,
    first_step: int = 0,
    on_step: OnStep | None = None,
    tracker: Tracker | None = None,
    stop: StopRequest | None = None,
    parity: Parity | None = None,
) -> Trained:
    """Train `settings.train.method` from `first_step` to the last step, writing metrics, matches and checkpoints into `run`.

    A checkpoint is saved every `save_every` steps, at the last step, and where a stop was asked for. `parity` compares engine and
    learner when it is due, before anything is learned.

    Raises:
        DivergedError: a loss or gradient was not finite; the batch is saved in the run folder and no weight was changed by it.
        VerifierError, EngineError: a stage cannot be trusted.
    """
    own, pair = settings.train, pair_of(session)
    method = method_named(own.method)
    weights = RewardWeights.of(settings.reward)
    for step in range(first_step, own.steps):
        clock = StepClock(session)
        lineup = method.lineup(step)
        chosen = problems_of_step(problems, step, per_step=own.problems_per_step, seed=order_seed(own))
        matches = _play_step(session, chosen, lineup, method, settings, step)
        clock.count(matches)
        streams = method.streams(matches, step_view(settings, lineup, step))
        check_budget(streams, num_problems=len(chosen), group_size=own.group_size)
        due = parity if parity is not None and parity.is_due(step) else None
        learned = [
            (stream, *_learn(learner, stream, settings, run, step, parity=due, clock=clock)) for stream in streams
        ]
        row = metrics_row(
            step,
            lineup,
            matches,
            learned,
            pair=pair,
            weights=weights,
            scale=own.advantage,
            mask_truncated=own.mask_truncated,
        )
        run.write_metrics(row)
        is_last = step == own.steps - 1
        is_stopping = stop is not None and stop.is_set
        with clock.saving():
            if is_last or step % own.save_matches_every == 0:
                run.write_matches(step, [match for of_problem in matches for match in of_problem])
            if is_last or is_stopping or (step + 1) % own.save_every == 0:
                save_state(run, pair, learner, completed_steps=step + 1, is_last=is_last, keep=own.keep_checkpoints)
        run.write_timings(clock.line(step))
        if tracker is not None:
            tracker.log(row)
        if on_step is not None:
            on_step(step, row)
        if is_stopping and step + 1 < own.steps:
            return Trained(completed_steps=step + 1, was_stopped=True)
    return Trained(completed_steps=own.steps, was_stopped=False)


def pair_of(session: Session) -> AdapterPair:
    """Return the pair that a training session is opened with."""
    assert session.pair is not None, "a training session has a pair"
    return session.pair


def step_view(settings: Settings, lineup: Lineup, step: int) -> StepView:
    """Return what the method may know of a step."""
    caps = settings.rollout
    return StepView(
        step=step,
        seed=settings.train.seed,
        lineup=lineup,
        weights=RewardWeights.of(settings.reward),
        max_tokens={"drafter": caps.max_draft_tokens, "challenger": caps.max_challenge_tokens},
    )


def check_budget(streams: Sequence[Stream], *, num_problems: int, group_size: int) -> None:
    """Check that the step sampled exactly 2N rollouts of each problem, whatever the method.

    Raises:
        ConfigError: it did not, so that methods could not be compared.
    """
    num_rollouts = sum(stream.num_rollouts for stream in streams)
    wanted = 2 * group_size * num_problems
    if num_rollouts != wanted:
        raise ConfigError(
            f"the step sampled {num_rollouts} rollouts for {num_problems} problems, but the budget is 2N = {2 * group_size} "
            f"each ({wanted}): mend the method's matches_per_problem"
        )


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


def _play_step(
    session: Session, problems: Sequence[Problem], lineup: Lineup, method: BaseMethod, settings: Settings, step: int
) -> list[list[Match]]:
    return play(
        session,
        problems,
        lineup,
        samples=method.matches_per_problem(settings.train.group_size),
        sampling=sampling_of(settings),
        seed=settings.train.seed,
        stream=("train", step),
    )


def _learn(
    learner: Learner,
    stream: Stream,
    settings: Settings,
    run: RunFolder,
    step: int,
    *,
    parity: Parity | None,
    clock: StepClock,
) -> tuple[Credited, UpdateReport]:
    own = settings.train
    credited = credit_stream(stream, scale=own.advantage, mask_truncated=own.mask_truncated)
    if parity is not None:
        parity.check(stream.adapter, credited.samples)
    try:
        with clock.learning():
            report = learner.update(stream.adapter, credited.samples, step=step, total_steps=own.steps)
        return credited, report
    except DivergedError as error:
        path = learner.save_batch(run.path / f"diverged-step-{step:06d}", credited.samples)
        raise DivergedError(f"{error} (step {step}; the batch is in {path})") from None
