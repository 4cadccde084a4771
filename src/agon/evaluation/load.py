"""Open what is to be measured: a run folder with its trained pair, or a bare base, together with its problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from agon.config import Settings, TaskSettings
from agon.datacheck.golds import drop_unreadable
from agon.errors import RunError
from agon.match.play import Sampling
from agon.match.serving import ServingSession, open_serving_session
from agon.match.session import Fitting, Session, fit_problems, open_base_session, open_session
from agon.recipe import saved_settings
from agon.records import Problem
from agon.runs.checkpoints import (
    checkpoint_name,
    checkpoint_step,
    list_checkpoints,
    newest_checkpoint,
    rounding_notes,
    verify_checkpoint,
)
from agon.runs.evaluations import PROMPT_SETTINGS, prompt_note
from agon.runs.manifest import read_config, read_manifest
from agon.tasks.account import data_hash
from agon.tasks.data import TaskData
from agon.tasks.loader import load_task


@dataclass(frozen=True, slots=True)
class Opened:
    """A session, the problems that fit it, the settings it was opened with; for a run also which checkpoint and what to say.

    `is_chosen_checkpoint` tells a checkpoint asked for by its step from the newest one. `changed` are the settings that a result depends
    on, by their keys, where they are not the run's: how players are asked and sampled, and on how many problems.
    """

    session: Session
    task: TaskData
    settings: Settings
    checkpoint: Path | None = None
    notes: tuple[str, ...] = ()
    is_chosen_checkpoint: bool = False
    changed: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Served:
    """A run opened for serving: its session, the problems that fit it, its settings, and what to say."""

    session: ServingSession
    task: TaskData
    settings: Settings
    notes: tuple[str, ...] = ()


# What a result depends on, and a person may set anew for one evaluation; the name of a result says the samples in any case.
_OF_RESULTS = {
    "model": ("dtype",),
    "rollout": ("max_draft_tokens", "max_challenge_tokens", "max_summary_tokens"),
    "evaluation": ("temperature", "top_p", "max_test", "max_dev", "seed"),
}

Check = Callable[[Settings, TaskData], None]
"""What is checked as soon as the problems are there, before a model is loaded; it raises."""


def _unchecked(settings: Settings, task: TaskData) -> None:
    pass


def open_run(
    path: Path,
    overrides: tuple[str, ...] = (),
    *,
    step: int | None = None,
    check: Check = _unchecked,
    asked: Settings | None = None,
) -> Opened:
    """Open a run folder with the adapters of its last whole checkpoint (or of `step`).

    `asked` are settings that a person gave: what they let run may run (`agon.recipe.saved_settings`).

    Raises:
        ConfigError: it would run code that nobody asked for.
        RunError: no run folder, no whole checkpoint, or the base is not the one it was trained on.
    """
    found = _find(path, overrides, step, check, asked)
    session = open_session(found.settings, checkpoint=found.checkpoint)
    task = fit_task(session, _readable(found.task, found.settings), found.settings)
    return Opened(
        session,
        task,
        found.settings,
        found.checkpoint,
        notes=(*found.notes, *_dropped_note(task)),
        is_chosen_checkpoint=step is not None,
        changed=found.changed,
    )


def open_run_to_serve(
    path: Path, overrides: tuple[str, ...] = (), *, step: int | None = None, check: Check = _unchecked
) -> Served:
    """Open a run folder as `open_run` does, with an engine that is driven step by step.

    Raises:
        ConfigError: the settings serve one adapter at a time; or as `open_run`.
        RunError: as `open_run`.
    """
    found = _find(path, overrides, step, check)
    session = open_serving_session(found.settings, found.checkpoint)
    task = fit_task(session, _readable(found.task, found.settings), found.settings)
    return Served(session, task, found.settings, (*found.notes, *_dropped_note(task)))


class _Found(NamedTuple):
    settings: Settings
    task: TaskData
    checkpoint: Path
    notes: tuple[str, ...]
    changed: Mapping[str, str]


def _find(
    path: Path, overrides: tuple[str, ...], step: int | None, check: Check, asked: Settings | None = None
) -> _Found:
    """Read what a run folder says, before a model is loaded."""
    config = read_config(path)
    settings = saved_settings(config, overrides, source=str(path / "config.json"), asked=asked)
    checkpoint, notes = find_checkpoint(path, step)
    task = load_task(settings.task)
    check(settings, task)
    expected = read_manifest(path).get("hashes", {}).get("data")
    if not overrides and expected not in (None, data_hash(task)):
        notes += ("the task's problems are not those the run was trained with (their hash differs)",)
    prompts = _changed_prompts(config.get("task", {}), settings.task)
    notes += tuple(prompt_note(name, new, old) for name, (new, old) in prompts.items())
    changed = {name: new for name, (new, _) in prompts.items()} | _changed_settings(config, settings)
    return _Found(settings, task, checkpoint, notes, changed)


def _changed_prompts(trained: Mapping[str, Any], task: TaskSettings) -> dict[str, tuple[str, str]]:
    """Return what players are asked, or read, otherwise than in their training, and how it was there.

    What an older run does not say is the default.
    """
    before = {name: trained.get(name, TaskSettings.model_fields[name].default) for name in PROMPT_SETTINGS}
    return {name: (getattr(task, name), old) for name, old in before.items() if getattr(task, name) != old}


def _changed_settings(trained: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Return the number format, the caps, the way of sampling and the number of problems where they are not the run's own."""
    changed: dict[str, str] = {}
    for table, names in _OF_RESULTS.items():
        now = getattr(settings, table)
        for name in names:
            value = getattr(now, name)
            if value != trained.get(table, {}).get(name, type(now).model_fields[name].default):
                changed[name] = f"{value:g}" if isinstance(value, float) else str(value).lower()
    return changed


def open_base(settings: Settings, *, check: Check = _unchecked) -> Opened:
    """Open the bare base of `settings`, without adapters."""
    task = _readable(load_task(settings.task), settings)
    check(settings, task)
    session = open_base_session(settings)
    fitted = fit_task(session, task, settings)
    return Opened(session, fitted, settings, notes=_dropped_note(fitted))


def find_checkpoint(run: Path, step: int | None = None) -> tuple[Path, tuple[str, ...]]:
    """Return the newest whole checkpoint of a run (or that of `step`), and a note on each damaged one passed over, and on rounding.

    Raises:
        RunError: there is none that can be used.
    """
    if step is not None:
        path = run / "checkpoints" / checkpoint_name(step)
        known = list_checkpoints(run)
        if path not in known:
            there = ", ".join(str(checkpoint_step(one)) for one in known) or "none"
            raise RunError(
                f"{run} has no checkpoint of step {step} (there: {there}): give one of these, or leave it out"
            )
        reason = verify_checkpoint(path)
        if reason is not None:
            raise RunError(
                f"checkpoint {path} cannot be used ({reason}): leave --checkpoint out to take the newest whole one"
            )
        return path, rounding_notes(path)
    newest = newest_checkpoint(run)
    if newest.path is None:
        raise RunError(f"{run} has no checkpoint to use: {newest.remedy(run)}")
    return newest.path, newest.notes


def _readable(task: TaskData, settings: Settings) -> TaskData:
    """Leave out problems whose gold cannot be read; those that are only trained on cost nothing here."""
    return drop_unreadable(task, settings.verifier, splits=("dev", "test"))


def fit_task(session: Fitting, task: TaskData, settings: Settings) -> TaskData:
    """Drop the problems that do not fit the context, from every split, and add them to the rows that were dropped."""
    kept: dict[str, tuple[Problem, ...]] = {}
    dropped = list(task.bad_rows)
    limit = settings.task.max_prompt_tokens
    for name, problems in task.splits.items():
        kept[name], lost = fit_problems(
            session, problems, settings.rollout, max_prompt_tokens=limit, origins=task.origins
        )
        dropped += lost
    own = settings.evaluation
    return replace(
        task,
        train=kept["train"],
        dev=kept["dev"][: own.max_dev],
        test=kept["test"][: own.max_test],
        bad_rows=tuple(dropped),
    )


def _dropped_note(task: TaskData) -> tuple[str, ...]:
    if not task.bad_rows:
        return ()
    first = task.bad_rows[0]
    where = "" if first.number is None else f"row {first.number} of {first.source}: "
    return (f"{len(task.bad_rows)} rows or problems were left out of the task (first: {where}{first.reason})",)


def sampling_for(settings: Settings) -> Sampling:
    """Return how completions are sampled while measuring: the training's caps, the evaluation's temperature and nucleus."""
    return Sampling(
        max_draft_tokens=settings.rollout.max_draft_tokens,
        max_challenge_tokens=settings.rollout.max_challenge_tokens,
        max_summary_tokens=settings.rollout.max_summary_tokens,
        temperature=settings.evaluation.temperature,
        top_p=settings.evaluation.top_p,
    )


def prompts_of(task: TaskSettings) -> dict[str, str]:
    """Return how players are asked and read, by setting."""
    return {name: getattr(task, name) for name in PROMPT_SETTINGS}
