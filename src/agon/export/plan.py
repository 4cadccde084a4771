"""Everything an export needs, found and checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from agon.audit.findings import readable
from agon.audit.hardware import memory_bytes
from agon.errors import ConfigError, ModelError, RunError
from agon.export.base import BaseFolder, NamedBase, name_elsewhere, open_base_folder
from agon.export.folders import dtype_named
from agon.export.gguf import Converter, find_converter
from agon.export.prompts import Prompts, prompts_of
from agon.export.records import Wish
from agon.export.trained import Trained
from agon.model.base import identify
from agon.model.merge import MergePlan
from agon.model.shards import StoredModel
from agon.runs.space import require_free_bytes

# Tokenizer, configurations, cards.
_BESIDES_WEIGHTS = 64_000_000
# Memory that a model in float32 takes, with the adapted weights of a small one twice, over that of its weights.
_MEMORY_SHARE = 1.5


@dataclass(frozen=True, slots=True)
class Merging:
    """The base and where each adapter goes in its weights. `dtype` None leaves each weight in its own; logits are compared on `prompt`."""

    base: BaseFolder
    plans: Mapping[str, MergePlan]
    dtype: torch.dtype | None
    prompt: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be written, from what. `base` is None where it is not on this machine, `merging` where adapters stay as they are."""

    trained: Trained
    wish: Wish
    named: NamedBase
    base: BaseFolder | None
    prompts: Prompts | None
    merging: Merging | None
    converter: Converter | None
    notes: tuple[str, ...]


def check_wish(wish: Wish) -> None:
    """Refuse options that would have no effect, or that nothing is known by.

    Raises:
        ConfigError: says which.
    """
    dtype_named(wish.dtype)
    if wish.kind == "adapter" and wish.is_unchecked:
        raise ConfigError("--unchecked is for merged weights, but an adapter is written as it was trained: add --merge")
    if not wish.merge and wish.dtype is not None:
        other = "a GGUF file has its own, --gguf-type" if wish.gguf_type else "an adapter is written as it was trained"
        raise ConfigError(f"--dtype is for the weights that --merge writes, but {other}: add --merge, or leave it out")
    if wish.gguf_type is None and wish.gguf_converter is not None:
        raise ConfigError("--gguf-converter was given without --gguf: add it, or leave both out")
    if wish.base is not None and not wish.base.isprintable():
        raise ConfigError(f"--base is {wish.base!r}, which is no name of a model: give a Hub name or a folder")


def plan_export(trained: Trained, wish: Wish, out: Path) -> Plan:
    """Find the base, the weights to be changed, the converter and the room on the disk.

    Raises:
        ConfigError: the converter is missing, or cannot convert this base.
        ModelError: the base is missing, is another than in training, or cannot be merged with.
        RunError: the disk or the memory has no room.
    """
    converter = _converter(trained, wish)
    named = name_elsewhere(trained.settings.model, wish.base)
    base, notes = _base_if_here(trained) if wish.kind == "adapter" else (_base(trained), ())
    shows_answer = trained.protocol == "answer-visible"
    prompts = None if base is None else prompts_of(trained.settings, base.tokenizer, shows_answer=shows_answer)
    merging = None
    if base is not None and prompts is not None and wish.kind != "adapter":
        merging = _merging(trained, wish, base=base, prompts=prompts)
        copies = 2 if wish.gguf_type is not None else 1
        sizes = [merge.num_bytes(merging.dtype) + _BESIDES_WEIGHTS for merge in merging.plans.values()]
        require_free_bytes(out, copies * sum(sizes))
        if not wish.is_unchecked:
            _require_memory(merging)
    return Plan(trained, wish, named, base, prompts, merging, converter, (*trained.notes, *notes))


def _merging(trained: Trained, wish: Wish, *, base: BaseFolder, prompts: Prompts) -> Merging:
    stored = StoredModel(base.path)
    plans = {name: MergePlan(stored, adapter, config=base.config) for name, adapter in trained.adapters.items()}
    # What a converter alone reads is rounded by it, and by nothing before it.
    dtype = dtype_named(wish.dtype) if wish.merge else torch.float32
    return Merging(base, plans, dtype, prompts.draft.token_ids)


def _require_memory(merging: Merging) -> None:
    """Refuse before hours are spent what the system would end without a word."""
    sizes = [merge.num_bytes(torch.float32) for merge in merging.plans.values()]
    needed, free = _MEMORY_SHARE * max(sizes), memory_bytes().free
    if needed > free:
        raise RunError(
            f"comparing logits takes {readable(needed)} of memory, the model in float32, but {readable(free)} are free: end other programs, "
            "or leave the comparison out with --unchecked"
        )


def _converter(trained: Trained, wish: Wish) -> Converter | None:
    if wish.gguf_type is None:
        return None
    if trained.settings.model.base == "quickstart":
        raise ConfigError(
            "--gguf cannot be had for the embedded base: llama.cpp knows the tokenizers of published models only; use --merge"
        )
    return find_converter(wish.gguf_converter)


def _base(trained: Trained) -> BaseFolder:
    base = open_base_folder(trained.settings.model, local_only=False)
    found = identify(base.path, trained.identity.name)
    if found != trained.identity:
        raise ModelError(
            f"{base.path} ({found.sha256[:12]}) is not the base that this run was trained on ({trained.identity.sha256[:12]}): "
            "put that one there"
        )
    return base


def _base_if_here(trained: Trained) -> tuple[BaseFolder | None, tuple[str, ...]]:
    try:
        base = open_base_folder(trained.settings.model, local_only=True)
    except ModelError as error:
        return None, (f"without the base's tokenizer, and with the layers' names as trained: {error}",)
    if identify(base.path, trained.identity.name) != trained.identity:
        return None, (f"without the base's tokenizer: {base.path} is not the base that this run was trained on",)
    return base, ()
