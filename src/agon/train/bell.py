"""Sounds a run's alarms: says each once, keeps it in the run folder, and knows which of them stops the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agon.config import AlarmSettings
from agon.errors import AgonError, DivergedError, EngineError, ResourceError, RunError, StalledError, VerifierError
from agon.methods.base import BaseMethod
from agon.records import Match
from agon.runs.folder import RunFolder
from agon.runs.lines import read_alarms
from agon.train.alarms import Alarms, RunAlarm
from agon.train.drift import DriftWatch
from agon.train.memory_watch import HALVED, LOW, MemoryWatch
from agon.train.watch import PairWatch

# Those that are not counted in steps with a good or a bad number are said once a run.
_ONCE = frozenset({"copying", "always-disagreeing", "kl-explosion", LOW, HALVED})
# What ends a run by itself, whatever [alarms] says.
_FAILURES: tuple[tuple[type[AgonError], str], ...] = (
    (DivergedError, "diverged"),
    (EngineError, "engine"),
    (VerifierError, "verifier"),
    (ResourceError, "memory"),
)
_Told = tuple[str, str, str]


class Bell:
    """Sounds the alarms of one run."""

    def __init__(
        self,
        own: AlarmSettings,
        run: RunFolder,
        method: BaseMethod,
        *,
        say: Callable[[str], None],
        seed: int = 0,
        drift: DriftWatch | None = None,
        memory: MemoryWatch | None = None,
    ) -> None:
        """Warn through `say`; `seed` is that of intervals, `drift`, if given, measures the KL to the base, and `memory` what is free."""
        self._alarms = Alarms(own, lineup=method.lineup)
        self._watch = PairWatch(own, seed=seed)
        self._drift = drift
        self._memory = memory
        self._method = method
        self._run = run
        self._say = say
        self._next_step = 0
        self._told: set[_Told] = set()

    def remember(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take in what a run that goes on has measured before, and what its alarms have said."""
        for row in rows:
            self._alarms.see(row)
            self._next_step = int(row["step"]) + 1
        self._told = {
            _told_of(alarm["name"], alarm["about"], alarm["since"])
            for alarm in read_alarms(self._run.path)
            if {"name", "about", "since"} <= alarm.keys()
        }

    def see(self, row: Mapping[str, Any], matches: Sequence[Sequence[Match]], *, is_last: bool) -> RunAlarm | None:
        """Take in a step, sound what is new, and return the alarm that stops the run, if any.

        After the last step there is nothing to stop: all alarms warn.
        """
        step = int(row["step"])
        self._next_step = step + 1
        found = [
            *self._alarms.see(row),
            *self._watch.see(step, self._method.lineup(step), matches),
            *(self._drift.see(step, matches) if self._drift is not None else ()),
            *(self._memory.see(step) if self._memory is not None else ()),
        ]
        for alarm in found:
            told = _told_of(alarm.name, alarm.about, alarm.since)
            if told in self._told:
                continue
            self._told.add(told)
            self._run.write_alarm(alarm.to_json())
            if alarm.mode == "warn" or is_last:
                self._say(f"warning: {alarm}")
        return next((alarm for alarm in found if alarm.mode == "stop" and not is_last), None)

    def fail(self, error: AgonError) -> None:
        """Keep the reason of a failure that ends the run in the step that was begun, if it is one of the numbers' or a checker's."""
        name = next((name for kind, name in _FAILURES if isinstance(error, kind)), None)
        if name is None:
            return
        step = self._next_step
        alarm = RunAlarm(
            name, step, since=step, about="the run", mode="stop", message=str(error), is_broken=name == "diverged"
        )
        # The failure itself is what is told; a disk that is full as well must not take its place.
        with suppress(RunError):
            self._run.write_alarm(alarm.to_json())


def halted(alarm: RunAlarm, run: Path, *, completed_steps: int) -> AgonError:
    """Return the error that a run which an alarm stopped, and which was saved, ends with: a divergence where the model is broken."""
    kind = DivergedError if alarm.is_broken else StalledError
    return kind(
        f"{alarm}; stopped after step {completed_steps}, saved; to go on all the same: agon train --resume --out {run} "
        f"--set alarms.{alarm.setting}=warn"
    )


def _told_of(name: object, about: object, since: object) -> _Told:
    """Return what two soundings of one spell have in common."""
    return str(name), str(about), "" if name in _ONCE else str(since)
