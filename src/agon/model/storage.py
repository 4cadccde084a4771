"""An adapter as a folder that PEFT and vLLM load with no agon installed.

`adapter_model.safetensors` carries, in its header's free-text metadata, the base it belongs to and how many optimiser
steps it has taken; PEFT ignores that, agon refuses another base by it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from agon.errors import ModelError
from agon.model.base import BaseIdentity

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
_MOST_DIGITS = 16

# Variants of LoRA that compute something else than W0 + s·B·A with s = alpha / rank.
_UNSUPPORTED = (
    "use_rslora",
    "use_dora",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "layer_replication",
    "lora_bias",
)


@dataclass(frozen=True, slots=True)
class StoredAdapter:
    """What an adapter folder holds."""

    config: LoraConfig
    tensors: Mapping[str, Tensor]
    version: int


def save_adapter(
    folder: Path, tensors: Mapping[str, Tensor], *, config: LoraConfig, identity: BaseIdentity, version: int
) -> None:
    """Write an adapter into `folder` (made if needed) and check what was written against memory.

    Raises:
        ModelError: the file read back differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {
        "format": "pt",
        "agon_base_name": identity.name,
        "agon_base_sha256": identity.sha256,
        "agon_version": str(version),
    }
    cpu = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    write_tensors(folder / WEIGHTS_FILE, cpu, metadata=metadata)
    (folder / CONFIG_FILE).write_text(
        json.dumps(_plain_config(config), indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    stored = read_adapter(folder, identity)
    check_keys(cpu, stored.tensors, folder)
    for key, tensor in cpu.items():
        if not torch.equal(tensor, stored.tensors[key]):
            raise ModelError(f"{folder}: {key} read back differs from memory: the disk may be failing")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file whose bytes depend on nothing but its content.

    The library writes metadata in an order that differs between processes; here it is sorted.
    """
    cpu = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    # Without tensors, safetensors 0.8 writes an empty metadata table as broken JSON.
    data = serialize(cpu, metadata=dict(metadata) if metadata else None)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.write(memoryview(data)[8 + size :])


def read_adapter(folder: Path, identity: BaseIdentity) -> StoredAdapter:
    """Read an adapter folder that belongs to the given base.

    Raises:
        ModelError: a file is missing or damaged, the adapter belongs to another base or is no plain LoRA adapter.
    """
    config = _read_config(folder)
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise ModelError(
            f"{folder} has no {WEIGHTS_FILE} (pickled weights are not read): give a PEFT adapter folder with safetensors weights"
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            _check_identity(folder, metadata, config, identity)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - a handle, not a dict
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is damaged ({error}): use another checkpoint") from None
    version = metadata.get("agon_version", "0")
    if not (version.isascii() and version.isdigit() and len(version) < _MOST_DIGITS):
        raise ModelError(f"{path} says it has taken {version[:20]!r} optimiser steps: use another checkpoint")
    return StoredAdapter(config=config, tensors=tensors, version=int(version))


def check_keys(own: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: Path) -> None:
    """Check that a file fills an adapter exactly: nothing missing, nothing left over, every shape right.

    Raises:
        ModelError: names the first key that does not fit.
    """
    missing, unexpected = sorted(own.keys() - stored.keys()), sorted(stored.keys() - own.keys())
    if missing or unexpected:
        parts = [f"lacks {len(missing)} keys (first: {missing[0]})"] if missing else []
        parts += [f"has {len(unexpected)} unexpected keys (first: {unexpected[0]})"] if unexpected else []
        raise ModelError(f"{folder} {' and '.join(parts)}: it was saved for other layers")
    for key, tensor in own.items():
        if tensor.shape != stored[key].shape:
            raise ModelError(
                f"{folder}: {key} is {tuple(stored[key].shape)}, but this base and rank need {tuple(tensor.shape)}"
            )


def _read_config(folder: Path) -> LoraConfig:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ModelError(f"{folder} has no {CONFIG_FILE}: give a PEFT adapter folder")
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if raw.get("peft_type") != "LORA":
            raise ModelError(f"{folder} is a {raw.get('peft_type')} adapter: agon uses LORA adapters only")
        # The weights are in the file: none of the ways to draw them anew, some of which read further files, is wanted.
        config = cast(LoraConfig, LoraConfig.from_peft_type(**{**raw, "init_lora_weights": True}))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} cannot be used ({error}): save the adapter again with PEFT") from None
    used = [key for key in _UNSUPPORTED if getattr(config, key, None)]
    if used:
        raise ModelError(f"{folder} uses {used[0]}: agon computes plain LoRA only")
    if not config.lora_alpha:
        raise ModelError(f"{folder} has lora_alpha {config.lora_alpha}, so it would do nothing: save it with its alpha")
    return config


def _check_identity(folder: Path, metadata: Mapping[str, str], config: LoraConfig, identity: BaseIdentity) -> None:
    sha256 = metadata.get("agon_base_sha256")
    if sha256 == identity.sha256:
        return
    if sha256 is not None:
        raise ModelError(
            f"{folder} belongs to the base {metadata.get('agon_base_name')} ({sha256[:12]}), "
            f"not to {identity.name} ({identity.sha256[:12]}): set model.base to its own"
        )
    # Saved by something else: the name is all there is to go by.
    if config.base_model_name_or_path != identity.name:
        raise ModelError(
            f"{folder} names the base {config.base_model_name_or_path!r}, not {identity.name!r}: set model.base to its own"
        )


def _plain_config(config: LoraConfig) -> dict[str, Any]:
    raw = config.to_dict()
    raw["target_modules"] = (
        sorted(raw["target_modules"]) if not isinstance(raw["target_modules"], str) else raw["target_modules"]
    )
    # The file holds the weights: whoever loads it need not draw any.
    return {key: value for key, value in raw.items() if not callable(value)} | {
        "inference_mode": True,
        "init_lora_weights": True,
    }
