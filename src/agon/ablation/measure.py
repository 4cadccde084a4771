"""The evaluations of one cell, or of the untrained base: each once for a checkpoint, and again only if that has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from agon.ablation.labels import MICROSCOPE, blamed_on, wish_named
from agon.config import Settings
from agon.errors import RunError
from agon.evaluation.evaluate import better_direction, direction_note, direction_scores
from agon.evaluation.load import Opened, open_base, open_run, sampling_for
from agon.evaluation.microscope import check_pair, examine
from agon.evaluation.request import Wish, check_ahead, measure
from agon.records import Direction
from agon.runs.atomic import remove_leftovers
from agon.runs.checkpoints import ROUNDED_TO, checkpoint_identity, newest_checkpoint
from agon.runs.evaluations import MICROSCOPE_FILE, write_evaluation
from agon.runs.folder import RunFolder
from agon.runs.lock import RunLock
from agon.runs.manifest import read_json, write_json
from agon.signals import is_orphan
from agon.tasks.data import TaskData

Say = Callable[[str], None]
_MEASURED = "measured"


def measure_run(run: Path, labels: Sequence[str], *, asked: Settings, say: Say) -> None:
    """Make the evaluations of a finished run that are missing, with one session for all of them. `asked` are the settings of its recipe.

    Both directions of a cascade carry the accuracy on the development problems (`dev_accuracy`), and whether it chose them (`chosen`).

    Raises:
        AgonError: the run cannot be opened, or a label cannot be measured.
        KeyboardInterrupt: the process that started this one is gone.
    """
    with RunFolder.open(run):
        stamp = stamp_of_run(run)
        missing = missing_evaluations(run, labels, stamp)
        if not missing:
            return
        opened = open_run(run, asked=asked)
        with opened.session:
            # Protocols share their drafts: no request is sampled twice.
            opened = replace(opened, session=opened.session.remembering())
            # Sampled when the first direction of a cascade is measured: what needs no choice does not wait for it.
            scores = cache(partial(_scores, opened))
            for label in missing:
                if label == MICROSCOPE:
                    _examine(opened, run, stamp=stamp, say=say)
                else:
                    _measure_one(opened, label, folder=run, stamp=stamp, scores=scores, say=say)


def measure_base(folder: Path, settings: Settings, labels: Sequence[str], *, say: Say) -> None:
    """Make the evaluations of the untrained base that are missing in `folder`.

    Raises:
        AgonError: the base cannot be opened, or a label cannot be measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = RunLock(folder)
    try:
        (folder / "evaluations").mkdir(exist_ok=True)
        remove_leftovers(folder / "evaluations")
        stamp = stamp_of_base(settings)
        missing = missing_evaluations(folder, labels, stamp)
        if not missing:
            return
        opened = open_base(settings)
        with opened.session:
            opened = replace(opened, session=opened.session.remembering())
            for label in missing:
                _measure_one(opened, label, folder=folder, stamp=stamp, scores=dict, say=say)
    finally:
        lock.release()


def missing_evaluations(folder: Path, labels: Sequence[str], stamp: Mapping[str, str] | None) -> list[str]:
    """Return the labels without a whole result of what `stamp` names; all of them if there is nothing to measure yet (None).

    A result of the adapters before they were rounded is not made again from the rounded ones.
    """
    if stamp is None:
        return list(labels)
    exact = {name: value for name, value in stamp.items() if name != ROUNDED_TO}
    return [label for label in labels if _stamp_in(folder, label) not in (stamp, exact)]


def stamp_of_run(run: Path) -> dict[str, str] | None:
    """Return what tells a run's last checkpoint from every other (`checkpoint_identity`). None without one."""
    newest = newest_checkpoint(run).path
    return None if newest is None else checkpoint_identity(newest)


def stamp_of_base(settings: Settings) -> dict[str, str]:
    """Return the hash of the settings that decide an evaluation of the base."""
    parts = (settings.model, settings.task, settings.rollout, settings.verifier, settings.evaluation)
    text = "\n".join(part.model_dump_json() for part in parts)
    return {"settings": hashlib.sha256(text.encode()).hexdigest()}


def check_labels(labels: Sequence[str], settings: Settings, task: TaskData, *, is_trained: bool) -> None:
    """Check before anything is trained that every evaluation can be made.

    Raises:
        ConfigError: a label contradicts itself or its arm, or its direction cannot be chosen.
        DataError: there is no problem to measure with.
    """
    for label in labels:
        if label == MICROSCOPE:
            check_pair(settings, samples=_samples_under(settings))
        else:
            wish = wish_named(label)
            with blamed_on(label):
                check_ahead(wish, settings, task, is_trained=is_trained)


def _measure_one(
    opened: Opened,
    label: str,
    *,
    folder: Path,
    stamp: Mapping[str, str] | None,
    scores: Callable[[], Mapping[Direction, float]],
    say: Say,
) -> None:
    wish = wish_named(label)
    with blamed_on(label):
        evaluated = measure(opened, wish, progress=_count)
    choice = scores() if _is_direction_of_cascade(wish) else {}
    result = {**_with_choice(evaluated.stored, choice, num_problems=len(opened.task.dev)), _MEASURED: stamp}
    write_evaluation(folder, label, result, evaluated.flat_matches)
    say(f"evaluated {label}: {evaluated.accuracy:.4f} (n={result['n']}, samples={result['samples']})")


def _examine(opened: Opened, run: Path, *, stamp: Mapping[str, str] | None, say: Say) -> None:
    found = examine(opened, split="test", samples=_samples_under(opened.settings), progress=_count)
    write_json(run / MICROSCOPE_FILE, {**found.to_json(), _MEASURED: stamp})
    sounded = [alarm.name for alarm in found.alarms]
    say(f"{MICROSCOPE}: {', '.join(sounded) if sounded else 'no alarm'}")


def _samples_under(settings: Settings) -> int:
    """A pair is looked at with two samples or more: pass@2 is the null of what it solves together."""
    return max(2, settings.evaluation.samples)


def _with_choice(result: dict[str, Any], scores: Mapping[Direction, float], *, num_problems: int) -> dict[str, Any]:
    """Add to a cascade's result how its direction did on the development problems, and whether that chose it."""
    if not scores:
        return result
    direction = result["direction"]
    return {
        **result,
        "chosen": direction == better_direction(scores),
        "dev_accuracy": scores[direction],
        "notes": [*result["notes"], direction_note(scores, num_problems=num_problems)],
    }


def _is_direction_of_cascade(wish: Wish) -> bool:
    return wish.protocol == "cascade" and wish.direction != "dev" and wish.split == "test"


def _scores(opened: Opened) -> dict[Direction, float]:
    settings = opened.settings
    if not opened.task.dev:
        return {}
    scores = direction_scores(
        opened.session,
        opened.task.dev,
        task=opened.task.name,
        settings=settings.evaluation,
        sampling=sampling_for(settings),
    )
    _stop_if_orphan()
    return scores


def result_path(folder: Path, label: str) -> Path:
    """Return where the result of an evaluation is (or will be)."""
    return folder / MICROSCOPE_FILE if label == MICROSCOPE else folder / "evaluations" / f"{label}.json"


def _stamp_in(folder: Path, label: str) -> Any:
    try:
        return read_json(result_path(folder, label)).get(_MEASURED)
    except RunError:
        return None


def _count(done: int, total: int) -> None:
    _stop_if_orphan()


def _stop_if_orphan() -> None:
    if is_orphan():
        raise KeyboardInterrupt
