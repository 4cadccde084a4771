"""The training loop. One step: play the matches, reward them, let each adapter learn from its own streams, write it down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agon.config import Settings
from agon.learner.learner import Learner
from agon.match.session import Session
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.model.pair import AdapterPair
from agon.records import Lineup, Problem
from agon.rewards.terms import RewardWeights
from agon.runs.folder import RunFolder
from agon.train.alarms import RunAlarm
from agon.train.bell import Bell
from agon.train.clock import StepClock
from agon.train.interrupt import StopRequest
from agon.train.measure import metrics_row
from agon.train.parity import Parity
from agon.train.state import START, Progress, save_state
from agon.train.tracking import Tracker
from agon.train.update import learn
from agon.train.wave import play_step

OnStep = Callable[[int, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Trained:
    """How far a call of `train` came: steps completed, whether a stop was asked for before the last, and the alarm that stopped it."""

    completed_steps: int
    was_stopped: bool
    halted_by: RunAlarm | None = None


def train(
    session: Session,
    learner: Learner,
    problems: Sequence[Problem],
    settings: Settings,
    run: RunFolder,
    *,
    start: Progress = START,
    on_step: OnStep | None = None,
    tracker: Tracker | None = None,
    stop: StopRequest | None = None,
    parity: Parity | None = None,
    bell: Bell | None = None,
) -> Trained:
    """Train `settings.train.method` from `start` until its problems are used up, writing metrics, matches and checkpoints into `run`.

    That is after `train.steps` steps, or sooner for a method that draws further problems. A checkpoint is saved every `save_every`
    steps, at the last step, and where the run is stopped, on request or by an alarm. `parity` compares engine and learner when it is
    due, before anything is learned; `bell` sounds the alarms of the run.

    Raises:
        DivergedError: a loss or gradient was not finite; the batch is saved in the run folder and no weight was changed by it.
        VerifierError, EngineError: a stage cannot be trusted.
    """
    own, pair, progress = settings.train, pair_of(session), start
    method = method_named(own.method)
    while progress.left(own):
        step, before, clock = progress.completed_steps, progress, StepClock(session)
        for frozen in method.snapshots(step):
            pair.snapshot(frozen.name, frozen.source)
        view = step_view(settings, method.lineup(step), step)
        played = play_step(session, problems, method, settings=settings, progress=before, view=view)
        clock.count(played.matches)
        progress = played.after(before)
        streams = method.streams(played.kept, view)
        due = parity if parity is not None and parity.is_due(step) else None
        learned = learn(learner, method, streams, own=own, before=before, parity=due, clock=clock, run=run.path)
        row = metrics_row(view, played, learned, method=method, own=own, pair=pair, before=before, after=progress)
        run.write_metrics(row)
        is_last = not progress.left(own)
        halted_by = None if bell is None else bell.see(row, played.matches, is_last=is_last)
        is_saving = is_last or halted_by is not None or _is_asked(stop) or (step + 1) % own.save_every == 0
        with clock.saving():
            if is_last or step % own.save_matches_every == 0:
                run.write_matches(step, [match for of_problem in played.matches for match in of_problem])
            if is_saving:
                save_state(run, pair, learner, progress, is_last=is_last, keep=own.keep_checkpoints)
        run.write_timings(clock.line(step))
        if tracker is not None:
            tracker.log(row)
        if on_step is not None:
            on_step(step, row)
        # Asked for the first time while the step was saved counts as well: what asks may not wait for another one.
        if not is_last and (halted_by is not None or (is_saving and _is_asked(stop))):
            return Trained(progress.completed_steps, was_stopped=halted_by is None, halted_by=halted_by)
    return Trained(completed_steps=progress.completed_steps, was_stopped=False)


def _is_asked(stop: StopRequest | None) -> bool:
    return stop is not None and stop.is_set


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
