"""vLLM's fused weights, seen as the base's own: which rows of which fused matrix belong to which weight of the base.

vLLM keeps q, k and v in one matrix and gate and up in another, rows after rows in the order of its `packed_modules_mapping`.
Rows of a matrix lie together in memory, so a weight of the base can be a view of the engine's: one copy serves both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agon.errors import EngineError
from agon.model.base import Base, base_parameters
from agon.model.lora import Site, merged_weights

# Where vLLM keeps the text part of a composite model.
_PREFIXES = ("", "language_model.")
_EMBEDDINGS = ("embed_tokens.weight", "lm_head.weight")


class Place(NamedTuple):
    """Where a layer of the base is in the engine: the path of the fused layer, and which of its parts it is."""

    path: str
    part: int


class FusedWeights:
    """Views of the engine's weights under the names that the base's have."""

    def __init__(self, model: nn.Module, base: Base) -> None:
        """Find every parameter of the base in the engine's model and compare the values.

        Raises:
            EngineError: one is missing, has another shape, or other values.
        """
        # vLLM hides a layer one level down where it has room for adapters, as PEFT does.
        self._fused = {_bare(name): parameter for name, parameter in model.named_parameters()}
        packed: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
        self._packs = {part: (pack, list(parts)) for pack, parts in packed.items() for part in parts}
        self._base = {_bare(name): parameter for name, parameter in base_parameters(base.model)}
        self._views = {name: self._find(name) for name in self._base}
        for name, parameter in self._base.items():
            view = self._views[name]
            if parameter.dtype != view.dtype or not torch.equal(parameter, view):
                raise EngineError(
                    f"the engine's weight {name} differs from the learner's: both must load the same folder, in the same "
                    "number format"
                )

    def view(self, name: str) -> Tensor:
        """Return the engine's rows of the base's parameter `name`; writing to it changes what the engine computes."""
        return self._views[name]

    def place(self, path: str) -> Place:
        """Return where the base's layer `path` is in the engine."""
        parent, _, part = path.rpartition(".")
        pack, parts = self._packs.get(part, (part, [part]))
        fused = f"{parent}.{pack}".removeprefix(".")
        for prefix in _PREFIXES:
            if f"{prefix}{fused}.weight" in self._fused:
                return Place(prefix + fused, parts.index(part))
        raise EngineError(f'vLLM has no layer {fused} (for {path}): set rollout.engine = "torch" for this base')

    def share(self, *, but_not: Collection[str] = ()) -> int:
        """Let the base use the engine's memory for its weights, except those named; return the bytes this gave back.

        To be called before anything keeps an eye on the base's tensors, such as an `AdapterPair`.
        """
        freed = 0
        for name, parameter in self._base.items():
            if name not in but_not and parameter.data_ptr() != self._views[name].data_ptr():
                freed += parameter.numel() * parameter.element_size()
                parameter.data = self._views[name]
        return freed

    def _find(self, name: str) -> Tensor:
        path, _, kind = name.rpartition(".")
        place = self.place(path) if f"{path}.weight" in self._base else Place(path, 0)
        fused = self._fused.get(f"{place.path}.{kind}")
        parent, _, part = path.rpartition(".")
        parts = self._packs.get(part, (part, [part]))[1]
        others = [self._base.get(f"{parent}.{other}.{kind}".removeprefix(".")) for other in parts]
        if fused is None or any(other is None for other in others):
            raise EngineError(f'vLLM has no weight {place.path}.{kind} (for {name}): set rollout.engine = "torch"')
        rows = [other.shape[0] for other in others if other is not None]
        first = sum(rows[: place.part])
        view = fused.data[first : first + rows[place.part]]
        # Embeddings are padded at their end.
        fits = fused.shape[0] == sum(rows) or (name.endswith(_EMBEDDINGS) and fused.shape[0] > sum(rows))
        if view.shape != self._base[name].shape or not fits:
            raise EngineError(
                f"vLLM keeps {name} as rows of a {tuple(fused.shape)} matrix, which does not fit its shape "
                f'{tuple(self._base[name].shape)}: set rollout.engine = "torch" for this base'
            )
        return view


class SwappedWeights:
    """Puts W0 + s·B·A of one adapter at a time into the engine, always from the pristine W0 that the learner keeps.

    Nothing is ever subtracted, so nothing drifts: after any number of swaps the engine holds, bit for bit, what one merge gives. In
    bfloat16 the part of a young adapter's update that is smaller than half of a weight's last place is rounded away. What that
    changes is less than what rounding does to the activations, and the logprobs are those of the weights that sampled; rounding up or
    down at random, which keeps every update on average, measured worse (docs/benchmarks.md).
    """

    def __init__(self, fused: FusedWeights, sites: Sequence[Site]) -> None:
        self._sites = list(sites)
        self._views = [fused.view(f"{site.path}.weight") for site in sites]

    @torch.no_grad()
    def write(self, name: str | None) -> None:
        """Let the engine compute with adapter `name`, or as the bare base (None)."""
        for site, view in zip(self._sites, self._views, strict=True):
            view.copy_(site.weight if name is None else merged_weights([site], name)[0])


def adapted_names(base: Base, targets: Any) -> set[str]:
    """Name the base's weights that an adapter with these targets (`adapter.targets`) changes."""
    head = base.model.get_output_embeddings()
    return {
        f"{path}.weight"
        for path, module in base.model.named_modules()
        if isinstance(module, nn.Linear)
        and module is not head
        and (targets == "all-linear" or any(path == target or path.endswith(f".{target}") for target in targets))
    }


def _bare(name: str) -> str:
    return name.replace(".base_layer.", ".")
