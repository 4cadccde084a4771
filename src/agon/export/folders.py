"""The two kinds of folder that other programs load: a PEFT adapter, and a whole model with an adapter merged into it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import NamedTuple

import torch

from agon.config import ModelSettings
from agon.errors import ConfigError
from agon.export.base import (
    BaseFolder,
    NamedBase,
    copy_model_files,
    copy_tokenizer,
    layer_paths,
    write_config,
    write_generation_config,
)
from agon.model.base import BaseIdentity
from agon.model.merge import MergePlan, Rounding, text_path, updates_of
from agon.model.storage import StoredAdapter, save_adapter

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
"""Number formats by the names that `--dtype` takes."""
_PREFIX = "base_model.model."


def write_adapter(
    folder: Path,
    stored: StoredAdapter,
    *,
    identity: BaseIdentity,
    named: NamedBase,
    base: BaseFolder | None,
    settings: ModelSettings,
) -> None:
    """Write an adapter as PEFT has it, under the base's name elsewhere, with the base's tokenizer if the base is here.

    Raises:
        ModelError: what was written differs when read back.
    """
    config = copy.copy(stored.config)
    config.base_model_name_or_path, config.revision = named.name, named.revision
    tensors = dict(stored.tensors)
    if base is not None and base.is_composite:
        # AutoModelForCausalLM may make more of the folder than the text model that was trained.
        known = layer_paths(base, settings)
        places = {path: text_path(path, known) for path in updates_of(stored)}
        tensors = {_renamed(key, places): tensor for key, tensor in tensors.items()}
        config.target_modules = sorted(places.values())
    save_adapter(
        folder, tensors, config=config, identity=BaseIdentity(named.name, identity.sha256), version=stored.version
    )
    if base is not None:
        copy_tokenizer(base, folder)


class Merged(NamedTuple):
    """What rounding took of the update, and the end tokens that the base's generation_config.json lacked."""

    rounding: Rounding
    added_stop_ids: tuple[int, ...]


def write_merged(
    folder: Path, plan: MergePlan, base: BaseFolder, *, dtype: torch.dtype | None, measured: torch.dtype | None = None
) -> Merged:
    """Write a base's folder anew with the adapter in its weights, in `dtype` (None: as the base has it).

    What rounding takes is told for `measured`, where that is what the weights will be converted to.

    Raises:
        ModelError: a weight does not fit the number format, or differs when read back.
    """
    folder.mkdir(exist_ok=True)
    copy_model_files(base, folder)
    write_config(base, folder, dtype=dtype, unties_head=plan.unties_head)
    added = write_generation_config(base, folder)
    return Merged(plan.write(folder, dtype, measured=measured), added)


def dtype_named(name: str | None) -> torch.dtype | None:
    """Return a number format by the name that `--dtype` takes; None stands for the base's own.

    Raises:
        ConfigError: there is none of that name.
    """
    if name is not None and name not in DTYPES:
        raise ConfigError(f"--dtype is {name!r}, which is not known; known: {', '.join(DTYPES)}")
    return None if name is None else DTYPES[name]


def _renamed(key: str, places: dict[str, str]) -> str:
    path, _, factor = key.removeprefix(_PREFIX).rpartition(".lora_")
    return f"{_PREFIX}{places[path]}.lora_{factor}"
