"""From settings to a finished run folder: check everything, begin or continue the run, train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.config import Settings
from agon.datacheck.golds import drop_unreadable
from agon.errors import AgonError, ConfigError, RunError
from agon.evaluation.load import fit_task
from agon.learner.learner import Learner
from agon.match.session import Session, open_session
from agon.methods.registry import method_named
from agon.methods.settle import settled
from agon.model.checkpoint import require_moments
from agon.model.machine import machine_of
from agon.recipe import settings_from
from agon.runs.checkpoints import checkpoint_step, is_last, list_checkpoints, newest_checkpoint
from agon.runs.folder import RunFolder
from agon.runs.lines import ALARMS_FILE, METRICS_FILE, read_lines, require_recorded
from agon.runs.manifest import changes_since, read_config, read_manifest
from agon.runs.parent import require_empty
from agon.runs.space import require_writable
from agon.tasks.account import data_hash, describe_task, require_training_problems, summary_lines
from agon.tasks.data import TaskData
from agon.tasks.loader import load_task
from agon.train.bell import Bell, halted
from agon.train.budget import plan_budget
from agon.train.drift import DriftWatch
from agon.train.interrupt import StopRequest
from agon.train.loop import Trained, pair_of, train
from agon.train.memory_watch import MemoryWatch
from agon.train.parity import Parity, check_start
from agon.train.room import check_room
from agon.train.state import START, Progress, restore_state
from agon.train.tracking import open_tracker, require_tracker

# Settings that may differ between a run and its continuation: they do not change what a step computes.
_FREE_TO_CHANGE = frozenset(
    {
        "train.save_every",
        "train.keep_checkpoints",
        "train.save_matches_every",
        "train.max_matches_gb",
        "tracking.backend",
        "tracking.project",
    }
)
# Those that a run may need to be given anew when it was out of memory: they move the rounding of a step, and nothing else of it.
_OF_MEMORY = frozenset(
    {
        "rollout.max_rows",
        "rollout.engine_memory_share",
        "train.tokens_per_microbatch",
        "train.logprob_chunk",
        "train.gradient_checkpointing",
    }
)
_FREE_TABLES = frozenset({"alarms"})


@dataclass(frozen=True, slots=True)
class Watcher:
    """What the caller is told while a run goes on: a line of text now and then, and every step's metrics."""

    say: Callable[[str], None]
    on_step: Callable[[int, dict[str, Any]], None]


def run_training(settings: Settings, out: Path, watcher: Watcher) -> Trained:
    """Begin a run in `out` and train it to its last step, or to a Ctrl-C.

    Data, base and output are checked before anything is written.

    Raises:
        AgonError: the subclass says what cannot be used. Nothing half-written is left behind.
    """
    settings = settled(settings)
    require_empty(out)
    require_writable(out)
    with ExitStack() as stack:
        check_room(plan_budget(settings), out, say=watcher.say)
        ready = _open(settings, watcher, stack)
        tree = settings.model_dump(mode="json")
        data = describe_task(ready.task)
        machine = machine_of(pair_of(ready.session).base.device)
        folder = RunFolder.create(out, settings=tree, hashes=ready.hashes, data=data, machine=machine)
        run = stack.enter_context(folder)
        return _train(settings, run, ready, stack, watcher, start=START)


def resume_training(out: Path, settings: Settings, watcher: Watcher) -> Trained:
    """Continue the run in `out` from its last whole checkpoint, with the same prompts, samples and weights as if never stopped.

    `settings` must be the run's own, but for when to save and track, and what is lowered for want of memory.

    Raises:
        ConfigError: `settings` differ from the run's.
        RunError: no run, its base or data have changed, or its checkpoint was packed without the optimisers.
    """
    settings = settled(settings)
    saved = settings_from(read_config(out), source=str(out / "config.json"))
    _require_same(saved, settings, out)
    for change in changed_settings(saved, settings, of_memory=True):
        watcher.say(f"warning: {change} changes how this run rounds: its steps may differ in their last digits")
    with ExitStack() as stack:
        run = stack.enter_context(RunFolder.open(out))
        done, notes = checkpoint_to_resume(out)
        for note in notes:
            watcher.say(f"warning: {note}")
        if done is not None and is_last(done, steps=settings.train.steps):
            watcher.say(f"{out} is finished: {checkpoint_step(done)} steps of {settings.train.steps}")
            return Trained(completed_steps=checkpoint_step(done), was_stopped=False)
        # Here, too: before a base is loaded.
        if done is not None:
            require_moments(done)
        ready = _open(settings, watcher, stack, checkpoint=done)
        _require_same_hashes(out, ready.hashes)
        pair, learner, own = pair_of(ready.session), ready.learner, settings.train
        start = START if done is None else restore_state(done, pair, learner, own)
        run.rewind(start.completed_steps)
        place = (
            "the beginning (no checkpoint was saved)" if done is None else f"step {start.completed_steps} ({done.name})"
        )
        watcher.say(f"resumed from {place}")
        changes = changes_since(out, machine_of(pair.base.device))
        if changes:
            watcher.say(
                f"warning: since the run began {', '.join(changes)}: its steps from here on may differ in their last digits from those that it "
                "would have taken"
            )
        return _train(settings, run, ready, stack, watcher, start=start)


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything a training needs, and the hashes that name its base and its problems."""

    task: TaskData
    session: Session
    learner: Learner
    parity: Parity
    hashes: dict[str, str]


def _open(settings: Settings, watcher: Watcher, stack: ExitStack, *, checkpoint: Path | None = None) -> _Ready:
    require_tracker(settings.tracking)
    loaded = load_task(settings.task)
    # A gold that cannot be read would make every answer to it wrong.
    readable = drop_unreadable(loaded, settings.verifier)
    require_training_problems(readable)
    session = stack.enter_context(open_session(settings, problems=readable.train, checkpoint=checkpoint))
    task = fit_task(session, readable, settings)
    require_training_problems(task, remedy="raise task.max_prompt_tokens, or lower the caps of rollout")
    if settings.train.problems_per_step > len(task.train):
        raise ConfigError(
            f"train.problems_per_step is {settings.train.problems_per_step}, but the task has {len(task.train)} training "
            f"problems: set it to {len(task.train)} or less"
        )
    for line in [*summary_lines(task), *_doubts(settings)]:
        watcher.say(line)
    pair, rollout = pair_of(session), settings.rollout
    if pair.init_report is not None and checkpoint is None:
        watcher.say(f"adapters: {pair.init_report}")
    cap = max(rollout.max_draft_tokens, rollout.max_challenge_tokens)
    learner = Learner(pair, settings.train, temperature=rollout.temperature, max_completion_tokens=cap)
    parity = _parity(settings, session, learner, task=task, watcher=watcher)
    hashes = {"base": pair.base.identity.sha256, "data": data_hash(loaded), "readable": data_hash(readable)}
    return _Ready(task, session, learner, parity, hashes)


def _doubts(settings: Settings) -> list[str]:
    """Return warnings about settings that make sense one by one and not together."""
    if settings.model.base == "quickstart" and settings.task.name != "countdown-lite":
        return [
            f"warning: the embedded base knows countdown-lite alone, and nothing of {settings.task.name}: set model.base to another model"
        ]
    return []


def _parity(settings: Settings, session: Session, learner: Learner, *, task: TaskData, watcher: Watcher) -> Parity:
    """Compare engine and learner once, before anything is written, and return what compares them later."""
    own = settings.train
    every, max_gap, budget = settings.rollout.parity_every, own.max_logprob_gap, learner.runner.tokens_per_microbatch
    parity = Parity(pair_of(session), learner.runner, every=every, max_gap=max_gap, tokens_per_batch=budget)
    temperature = settings.rollout.temperature
    check_start(parity, session, task.train, temperature=temperature, seed=own.seed, say=watcher.say)
    return parity


def _train(
    settings: Settings, run: RunFolder, ready: _Ready, stack: ExitStack, watcher: Watcher, *, start: Progress
) -> Trained:
    tracker = open_tracker(settings, run.path, say=watcher.say)
    if tracker is not None:
        stack.callback(tracker.close)
    stop = stack.enter_context(StopRequest())
    bell = _bell(settings, run, ready, say=watcher.say)
    run.limit_matches(int(settings.train.max_matches_gb * 1e9), say=watcher.say)
    try:
        trained = train(
            ready.session,
            ready.learner,
            ready.task.train,
            settings,
            run,
            start=start,
            on_step=watcher.on_step,
            tracker=tracker,
            stop=stop,
            parity=ready.parity,
            bell=bell,
        )
    except AgonError as error:
        bell.fail(error)
        raise
    if trained.halted_by is not None:
        raise halted(trained.halted_by, run.path, completed_steps=trained.completed_steps)
    return trained


def _bell(settings: Settings, run: RunFolder, ready: _Ready, *, say: Callable[[str], None]) -> Bell:
    own, drift = settings.alarms, None
    if own.kl_explosion != "off":
        drift = DriftWatch(pair_of(ready.session), own, temperature=settings.rollout.temperature)
    method = method_named(settings.train.method)
    memory = MemoryWatch(ready.learner.runner, own, device=pair_of(ready.session).base.device)
    bell = Bell(own, run, method, say=say, seed=settings.train.seed, drift=drift, memory=memory)
    bell.remember(read_lines(run.path / METRICS_FILE))
    return bell


def checkpoint_to_resume(run: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Return the checkpoint to go on from (None: nothing was saved yet), and a note on each damaged one that is passed over.

    Raises:
        RunError: none can be used, or metrics and alarms are not what they were when it was saved.
    """
    if not list_checkpoints(run):
        # Training from the beginning would leave results that are not of what is trained then, and take away the numbers of what they are of.
        results = sorted((run / "evaluations").glob("*.json"))
        if results:
            raise RunError(
                f"{run} holds results ({results[0].name}) and no checkpoint that they are of: restore its checkpoints from a copy, or move "
                f"{run / 'evaluations'} away to train from the beginning"
            )
        return None, ()
    newest = newest_checkpoint(run)
    if newest.path is None:
        raise RunError(f"{run} has no checkpoint to go on from: {newest.remedy(run)}")
    for name in (METRICS_FILE, ALARMS_FILE):
        require_recorded(run, name, newest.path)
    return newest.path, newest.damage


def changed_settings(saved: Settings, wanted: Settings, *, of_memory: bool = False) -> list[str]:
    """Name every setting that a run and its continuation may not differ in, and do, with both values.

    `of_memory` names those instead that they may differ in for want of memory, and do.
    """
    after = wanted.model_dump()
    return [
        f"{table}.{key} ({before!r} -> {after[table][key]!r})"
        for table, inner in saved.model_dump().items()
        for key, before in inner.items()
        if after[table][key] != before
        and (f"{table}.{key}" in _OF_MEMORY) == of_memory
        and f"{table}.{key}" not in _FREE_TO_CHANGE
        and table not in _FREE_TABLES
    ]


def _require_same(saved: Settings, wanted: Settings, out: Path) -> None:
    differing = changed_settings(saved, wanted)
    if differing:
        raise ConfigError(
            f"these settings differ from the run in {out}: {', '.join(differing)}; resume without them, or train into another --out"
        )


def _require_same_hashes(out: Path, hashes: Mapping[str, str]) -> None:
    saved = read_manifest(out).get("hashes", {})
    for name, what in (("base", "base"), ("data", "problems"), ("readable", "problems with a gold that can be read")):
        # The last has not always been there.
        if saved.get(name) != hashes[name] and (name in saved or name != "readable"):
            raise RunError(f"the {what} of {out} changed since the run began: restore it, or train into another --out")
