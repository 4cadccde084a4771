"""The content of a checkpoint folder: both adapters as PEFT folders, both optimisers, and where the run stands.

Frozen copies that a method drafts with are kept in `frozen/NAME/`: training goes on with them, nothing else reads them.

The folder itself (temporary, renamed when whole, hashed) is the business of `agon.runs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from agon.errors import RunError
from agon.model.pair import PLAIN_NAME, AdapterPair
from agon.model.storage import write_tensors
from agon.records import ADAPTERS

_STATE_FILE = "state.json"
_FROZEN = "frozen"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What a run continues from besides its adapters. `progress` holds plain JSON values; random streams need none."""

    optimizers: Mapping[str, Mapping[str, Tensor]]
    progress: Mapping[str, Any]


def save_checkpoint(
    folder: Path, pair: AdapterPair, *, optimizers: Mapping[str, Mapping[str, Tensor]], progress: Mapping[str, Any]
) -> None:
    """Write adapters (`A/`, `B/`, `frozen/…`), optimiser moments (`optimizer-A.safetensors`, …) and `state.json` into `folder`.

    Raises:
        ModelError: an adapter read back differs from memory.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ADAPTERS:
        pair.save(name, folder / name)
        write_tensors(_optimizer_file(folder, name), optimizers.get(name, {}))
    for name in pair.frozen_names:
        pair.save(name, folder / _FROZEN / name)
    state = {
        "format": _FORMAT,
        "base": {"name": pair.base.identity.name, "sha256": pair.base.identity.sha256},
        "versions": {name: pair.version(name) for name in pair.names},
        "progress": dict(progress),
    }
    (folder / _STATE_FILE).write_text(json.dumps(state, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def load_checkpoint(folder: Path, pair: AdapterPair) -> TrainingState:
    """Fill both adapters, and the frozen ones, from a checkpoint, bit for bit, and return the rest of it.

    Raises:
        RunError: a file is missing or damaged, the checkpoint has another format, or it was packed without the optimisers.
        ModelError: an adapter does not fit the pair or its base.
    """
    require_moments(folder)
    state = read_state(folder)
    load_adapters(pair, folder)
    for name in state.get("versions", {}):
        if name not in ADAPTERS:
            pair.add_frozen(name, folder / _FROZEN / name)
    optimizers: dict[str, dict[str, Tensor]] = {}
    for name in ADAPTERS:
        path = _optimizer_file(folder, name)
        try:
            optimizers[name] = load_file(path)
        except (SafetensorError, OSError) as error:
            raise RunError(f"{path} is damaged ({error}): resume from an earlier checkpoint") from None
    return TrainingState(optimizers=optimizers, progress=state["progress"])


def require_moments(folder: Path) -> None:
    """Check that training can go on from a checkpoint. One that was packed to be measured elsewhere lacks the optimisers.

    Raises:
        RunError: it has no moments of an optimiser.
    """
    for name in ADAPTERS:
        path = _optimizer_file(folder, name)
        if not path.exists():
            raise RunError(
                f"{folder} cannot be trained on from: the optimiser's moments ({path.name}) were left out when it was packed; resume the run "
                "folder that it was packed from, or train into another --out"
            )


def load_adapters(pair: AdapterPair, folder: Path) -> None:
    """Fill A and B from a checkpoint folder, for use without further training.

    Raises:
        ModelError: an adapter is missing, damaged, or does not fit the pair or its base.
    """
    for name in ADAPTERS:
        pair.load(name, folder / name)


def read_state(folder: Path) -> dict[str, Any]:
    """Return what state.json of a checkpoint says: its base, each adapter's optimiser steps, and the run's progress.

    Raises:
        RunError: it is missing, damaged, or of another format.
    """
    path = folder / _STATE_FILE
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = state["format"]
        state["progress"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{path} is missing or damaged ({error}): resume from an earlier checkpoint") from None
    if version != _FORMAT:
        raise RunError(f"{path} has format {version}, this agon reads {_FORMAT}: resume with the agon that wrote it")
    names = state.get("versions", {})
    # They name folders of the checkpoint.
    if not (isinstance(names, dict) and all(PLAIN_NAME.fullmatch(name) for name in cast("dict[str, Any]", names))):
        raise RunError(f"{path} names adapters that none can be called ({names!r}): resume from an earlier checkpoint")
    if not isinstance(state["progress"], dict):
        raise RunError(f"{path} tells no progress: resume from an earlier checkpoint")
    return state


def _optimizer_file(folder: Path, name: str) -> Path:
    return folder / f"optimizer-{name}.safetensors"
