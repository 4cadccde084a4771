"""What a run has to export: one whole checkpoint, its adapters, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.config import Settings
from agon.errors import ConfigError, RunError
from agon.evaluation.load import find_checkpoint
from agon.match.lineups import trained_protocol
from agon.methods.base import BaseMethod
from agon.methods.registry import method_named
from agon.model.base import BaseIdentity
from agon.model.checkpoint import read_state
from agon.model.storage import StoredAdapter, read_adapter
from agon.recipe import saved_settings
from agon.records import Role
from agon.runs.checkpoints import checkpoint_step, is_last
from agon.runs.evaluations import read_evaluations
from agon.runs.manifest import read_config, read_manifest

# Roles rotate with a period of two steps.
_PERIOD = 2
_ROW_KEYS = ("accuracy", "n", "interval", "protocol")


@dataclass(frozen=True, slots=True)
class Trained:
    """A checkpoint of a run with the adapters to export, read whole, and what is known of them.

    `identity` is the base's, as the checkpoint names it; `is_finished` tells whether the run ended with this checkpoint.
    """

    run: Path
    settings: Settings
    method: BaseMethod
    checkpoint: Path
    is_finished: bool
    identity: BaseIdentity
    progress: Mapping[str, Any]
    versions: Mapping[str, str]
    adapters: Mapping[str, StoredAdapter]
    evaluations: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...]

    @property
    def step(self) -> int:
        """Steps the run had taken."""
        return checkpoint_step(self.checkpoint)

    @property
    def protocol(self) -> str:
        """How the adapters were trained to be deployed."""
        return trained_protocol(self.method)

    def roles(self, name: str) -> tuple[Role, ...]:
        """Return the roles an adapter played while training."""
        lineups = [self.method.lineup(step) for step in range(_PERIOD)]
        played: dict[Role, bool] = {
            "drafter": any(name in lineup.drafters for lineup in lineups),
            "challenger": any(lineup.has_challenge and lineup.challenger == name for lineup in lineups),
        }
        return tuple(role for role, has_played in played.items() if has_played)


def read_trained(run: Path, *, which: str | None, step: int | None) -> Trained:
    """Read what is to be exported: adapter `which` (A, B, both; None: all that the method deploys) of the newest whole checkpoint or of `step`.

    Raises:
        ConfigError: the run did not train that adapter, or asks by itself for what a person has to ask for.
        RunError: no run folder, no such checkpoint, or one that is damaged.
        ModelError: an adapter is damaged, or no plain LoRA adapter.
    """
    settings = saved_settings(read_config(run), tables=("model",), source=str(run / "config.json"))
    method = method_named(settings.train.method)
    names = _names(method, which)
    checkpoint, notes = find_checkpoint(run, step)
    state = read_state(checkpoint)
    identity = _identity(checkpoint, state)
    return Trained(
        run=run,
        settings=settings,
        method=method,
        checkpoint=checkpoint,
        is_finished=is_last(checkpoint, steps=settings.train.steps),
        identity=identity,
        progress=state["progress"],
        versions=read_manifest(run).get("versions", {}),
        adapters={name: read_adapter(checkpoint / name, identity) for name in names},
        evaluations=_evaluations(run),
        notes=notes,
    )


def _names(method: BaseMethod, which: str | None) -> tuple[str, ...]:
    if which is None or (which == "both" and method.has_pair):
        return method.adapters
    if which not in method.adapters:
        raise ConfigError(
            f"--adapter {which} was asked for, but this run ({method.name}) trained one adapter, {method.adapters[0]}: "
            "leave it out"
        )
    return (which,)


def _identity(checkpoint: Path, state: Mapping[str, Any]) -> BaseIdentity:
    try:
        return BaseIdentity(str(state["base"]["name"]), str(state["base"]["sha256"]))
    except (KeyError, TypeError):
        raise RunError(f"{checkpoint / 'state.json'} does not name its base: use another checkpoint") from None


def _evaluations(run: Path) -> list[dict[str, Any]]:
    rows = read_evaluations(run)
    for row in rows:
        interval = row.get("interval")
        is_whole = isinstance(interval, dict) and {"low", "high", "kind", "unit"} <= interval.keys()
        if not is_whole or any(row.get(key) is None for key in _ROW_KEYS):
            raise RunError(
                f"evaluation {row['label']} of {run} has no accuracy, n or interval: evaluate again, or remove the file"
            )
    return rows
