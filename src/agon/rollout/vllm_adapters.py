"""Two ways to serve the adapters of a pair: one at a time inside the engine's weights, or side by side.

`SwappedAdapters` writes W0 + s·B·A into the engine. A token costs what it costs without an adapter, but a batch has one
adapter, and the adapted weights exist twice: the learner keeps the pristine W0.
`VersionedAdapters` hands vLLM the factors. Each token costs a little more; any adapters mix in one batch, a challenge may start
while other drafts run, and learner and engine share one copy of the base.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from agon.errors import EngineError
from agon.model.pair import AdapterPair
from agon.rollout.vllm_server import VllmServer
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights


@runtime_checkable
class Adapters(Protocol):
    """What an engine needs of either way."""

    can_mix: bool

    def load(self, name: str | None) -> None:
        """Make the adapter as it is in the pair at this moment the one that is served under its name."""
        ...

    def route(self, name: str | None) -> Any | None:
        """Return what requests for a loaded adapter are sent with."""
        ...

    def keep(self, name: str | None) -> bool:
        """Say whether requests for it can be sent without loading it again; if so, others leave before it does."""
        ...


class SwappedAdapters:
    """One adapter at a time, in the engine's own weights."""

    can_mix = False

    def __init__(self, server: VllmServer, weights: SwappedWeights) -> None:
        self._server = server
        self._weights = weights
        self._current: str | None = None

    def load(self, name: str | None) -> None:
        """Write the adapter into the engine, and forget what was computed with the one before."""
        self._server.forget_prefixes()
        self._weights.write(name)
        self._current = name

    def route(self, name: str | None) -> None:
        """No route: all requests run with the weights as they are."""
        assert name == self._current, f"adapter {name!r} is asked for while {self._current!r} is in the weights"

    def keep(self, name: str | None) -> bool:
        """Say whether it is the one in the weights."""
        return name == self._current


class VersionedAdapters:
    """Several adapters side by side. Every version has an id of its own: vLLM takes a known id for known weights."""

    can_mix = True

    def __init__(self, server: VllmServer, fused: FusedWeights, pair: AdapterPair, *, room: int) -> None:
        self._server = server
        self._fused = fused
        self._pair = pair
        self._room = room
        self._ids = itertools.count(1)
        self._loaded: dict[str, tuple[int, Any]] = {}

    def load(self, name: str | None) -> None:
        """Hand the adapter's factors to the engine under a new id, and read them back.

        Raises:
            EngineError: vLLM put them nowhere, elsewhere, or changed them.
        """
        if name is None:
            return
        self._server.forget_prefixes()
        self._drop(name)
        number = next(self._ids)
        matrices = self._matrices(name)
        route = self._server.load_adapter(f"{name}@{number}", number, matrices, rank=self._rank(name))
        self._loaded[name] = (number, route)
        self._check(name, number, matrices)

    def route(self, name: str | None) -> Any | None:
        """The adapter's newest id; None for the bare base.

        Raises:
            EngineError: it had to make room for another of the same batch.
        """
        if name is not None and name not in self._loaded:
            raise EngineError(
                f"adapter {name!r} had to leave for another: {self._room} adapters fit side by side; ask for fewer in one batch, or "
                'set rollout.vllm_adapters = "swapped"'
            )
        return None if name is None else self._loaded[name][1]

    def keep(self, name: str | None) -> bool:
        """Say whether it has a place in the engine, and make it the last to lose it."""
        if name in self._loaded:
            self._loaded[name] = self._loaded.pop(name)
        return name is None or name in self._loaded

    def _drop(self, name: str) -> None:
        """Make room: take out the adapter's older version, or else the one that was asked for longest ago."""
        if name not in self._loaded and len(self._loaded) < self._room:
            return
        oldest = name if name in self._loaded else next(iter(self._loaded))
        self._server.drop_adapter(self._loaded.pop(oldest)[0])

    def _rank(self, name: str) -> int:
        return self._pair.sites[0].down(name).shape[0]

    @torch.no_grad()
    def _matrices(self, name: str) -> dict[str, Tensor]:
        dtype = self._pair.base.dtype
        matrices: dict[str, Tensor] = {}
        for site in self._pair.sites:
            prefix = f"base_model.model.{site.path}"
            # Copies, whatever the number format: the trainable matrices must not be within the engine's reach.
            matrices[f"{prefix}.lora_A.weight"] = site.down(name).to(dtype, copy=True)
            matrices[f"{prefix}.lora_B.weight"] = (site.scale(name) * site.up(name)).to(dtype)
        return matrices

    @torch.no_grad()
    def _check(self, name: str, number: int, matrices: dict[str, Tensor]) -> None:
        layers, slot = self._server.adapter_layers(), self._server.slot_of(number)
        equal: list[Tensor] = []
        for site in self._pair.sites:
            place = self._fused.place(site.path)
            if place.path not in layers:
                known = ", ".join(sorted({path.rpartition(".")[2] for path in layers}))
                raise EngineError(
                    f"vLLM has no room for an adapter at {place.path} (it has for {known}): leave the layer out of "
                    'adapter.targets, or set rollout.vllm_adapters = "swapped"'
                )
            layer = layers[place.path]
            for letter, stacked in (("A", layer.lora_a_stacked), ("B", layer.lora_b_stacked)):
                wanted = matrices[f"base_model.model.{site.path}.lora_{letter}.weight"]
                found = stacked[place.part][slot, 0, : wanted.shape[0], : wanted.shape[1]]
                equal.append((found == wanted).all())
        flags: list[bool] = torch.stack(equal).tolist()
        if not all(flags):
            path = self._pair.sites[flags.index(False) // 2].path
            raise EngineError(
                f"vLLM changed adapter {name!r} at {path} while loading it: its samples would be of another policy"
            )
