"""Two LoRA adapters, A and B, of one frozen base, and any number of frozen ones beside them.

`AdapterPair` alone switches adapters. At rest `base.model` computes the bare base; inside `sampling(name)` it computes
with that adapter, frozen; inside `training(name)` that adapter, and nothing else, gets gradients. Every switch checks what
must not have moved: the base, and every adapter but the one in training.
"""

from __future__ import annotations

import hashlib
import re
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from torch import Tensor, nn

from agon.config import AdapterSettings
from agon.errors import ModelError
from agon.model import storage
from agon.model.base import Base, base_parameters, tensor_bytes
from agon.model.init import InitReport, initialise_pair
from agon.model.lora import (
    CACHE_LIMIT_BYTES,
    Site,
    find_sites,
    merged_bytes,
    merged_weights,
    mount_bare,
    mount_merged,
    mount_peft,
    mount_split,
    mount_traced,
    mount_trainable,
    recall_mount,
)
from agon.records import ADAPTERS

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")

_Stamp = tuple[tuple[int, int], ...]


class AdapterPair:
    """The adapters of a run. Make one with `create`; a base can carry one pair only."""

    def __init__(self, base: Base, settings: AdapterSettings, peft_model: Any) -> None:
        self.base = base
        self.settings = settings
        self.init_report: InitReport | None = None
        self._peft = peft_model
        self._sites: list[Site] = find_sites(base.model)
        self._versions: dict[str, int] = dict.fromkeys(ADAPTERS, 0)
        self._cache: dict[str, tuple[_Stamp, list[Tensor]]] = {}
        self._factors: dict[str, list[nn.Parameter]] = {}  # looked up once: PEFT's nested containers are slow
        mount_bare(self._sites)
        self._mount_bare = recall_mount(self._sites)
        self._mount = self._mount_bare
        self._training: str | None = None
        self._lock = threading.RLock()
        self._base_tensors = [parameter for _, parameter in base_parameters(base.model)]
        num_bytes = sum(site.weight.numel() * site.weight.element_size() for site in self._sites)
        self._is_merging = merged_bytes(num_bytes, is_float32=base.dtype == torch.float32) > 0
        self._is_caching = 2 * num_bytes <= CACHE_LIMIT_BYTES
        self._set_trainable(None)
        self._base_stamp = _stamp(self._base_tensors)

    @classmethod
    def create(
        cls, base: Base, settings: AdapterSettings, *, seed: int, probe_prompts: Sequence[Sequence[int]] | None = None
    ) -> AdapterPair:
        """Add adapters A and B to a base and initialise them as `settings.init` says.

        `probe_prompts` (token ids) are what the noise of `init = "noise"` is calibrated on; without them, random tokens.

        Raises:
            ModelError: the targets match no linear layer, or the base carries a pair already.
        """
        if any(hasattr(module, "lora_A") for module in base.model.modules()):
            raise ModelError("the base carries adapters already: load it again for a second pair")
        config = _lora_config(settings, base.identity.name)
        # PEFT draws from the global stream; all of it is drawn again below. It also reads an attribute that transformers deprecates.
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore", category=FutureWarning):
            try:
                peft_model = PeftModel(base.model, config, adapter_name="A")
            except ValueError as error:
                raise ModelError(
                    f"adapter.targets {settings.targets!r} matches no layer of the base ({error})"
                ) from None
            peft_model.add_adapter("B", config)
        pair = cls(base, settings, peft_model)
        _check_targets(settings, pair.sites)
        pair.init_report = initialise_pair(pair, seed=seed, probe_prompts=probe_prompts)
        return pair

    # --- what is there

    @property
    def names(self) -> tuple[str, ...]:
        """Every adapter, A and B first."""
        return tuple(self._versions)

    @property
    def frozen_names(self) -> tuple[str, ...]:
        """Every adapter that is not A or B."""
        return self.names[len(ADAPTERS) :]

    @property
    def sites(self) -> tuple[Site, ...]:
        """The adapted layers, in the model's order."""
        return tuple(self._sites)

    def version(self, name: str | None) -> int:
        """Optimiser steps the adapter has taken; 0 for the base (None)."""
        return 0 if name is None else self._versions[self._known(name)]

    def count_step(self, name: str) -> None:
        """Note that the adapter has taken an optimiser step."""
        self._versions[self._known(name)] += 1

    def parameters(self, name: str) -> list[nn.Parameter]:
        """The adapter's matrices, down and up of each layer in turn."""
        self._known(name)
        if name not in self._factors:
            self._factors[name] = [matrix for site in self._sites for matrix in (site.down(name), site.up(name))]
        return list(self._factors[name])

    def state(self, name: str) -> dict[str, Tensor]:
        """The adapter's tensors under the names PEFT writes them with (no copies)."""
        self._known(name)
        tensors: dict[str, Tensor] = {}
        for site in self._sites:
            tensors[f"base_model.model.{site.path}.lora_A.weight"] = site.down(name).detach()
            tensors[f"base_model.model.{site.path}.lora_B.weight"] = site.up(name).detach()
        return tensors

    def fingerprint(self, name: str) -> str:
        """Hash the adapter, bit for bit."""
        digest = hashlib.sha256()
        for key, tensor in self.state(name).items():
            digest.update(key.encode())
            digest.update(tensor_bytes(tensor))
        return digest.hexdigest()

    # --- switching

    @contextmanager
    def sampling(self, name: str | None, *, is_traced: bool = False) -> Generator[Any]:
        """Let the model compute with adapter `name`, frozen, or as the bare base (None); yields the model.

        `is_traced` computes in plain operations, for compiled layers.
        """
        with self._lock, self._mounted(self._frozen_mount(name, is_traced)) as model:
            yield model

    def prepare(self, name: str | None) -> Callable[[], AbstractContextManager[Any]]:
        """Return what does as `sampling(name)` does, and is quick to enter for every token; for as long as the adapter stays as it is.

        Where adapters are merged into the weights it keeps a merged copy.
        """
        with self.sampling(name):
            mount = recall_mount(self._sites)
        factors = [] if name is None else self.parameters(name)
        stamp = _stamp(factors)

        def sampling() -> AbstractContextManager[Any]:
            assert _stamp(factors) == stamp, f"adapter {name!r} was written to since sampling from it was prepared"
            return self._mounted(mount)

        return sampling

    @contextmanager
    def training(self, name: str, *, is_traced: bool = False) -> Generator[Any]:
        """Let adapter `name`, and nothing else, get gradients; yields the model.

        The optimiser may step inside, once, after the last forward pass: merged weights are built on entry. `is_traced` computes
        in plain operations, for compiled layers.
        """
        self._known(name)
        with self._lock:
            assert self._training is None, f"training({name!r}) inside training({self._training!r})"
            others = [parameter for other in self.names if other != name for parameter in self.parameters(other)]
            before = _stamp(others), _checksum(others)
            self._check_base()
            self._training = name
            try:
                self._mount_training(name, is_traced)
                self._set_trainable(name)
                yield self.base.model
                self._check_trainable(name)
            finally:
                self._training = None
                self._cache.pop(name, None)
                self._set_trainable(None)
                self._mount()
            self._check_base()
            assert (_stamp(others), _checksum(others)) == before, (
                f"an adapter other than {name!r} moved while {name!r} was in training"
            )

    # --- files

    def save(self, name: str, folder: Path) -> None:
        """Write the adapter as a plain PEFT folder and read it back.

        Raises:
            ModelError: what was read back is not what is in memory.
        """
        config = self._peft.peft_config[name]
        storage.save_adapter(
            folder, self.state(name), config=config, identity=self.base.identity, version=self.version(name)
        )

    def load(self, name: str, folder: Path) -> None:
        """Fill an adapter from a PEFT folder.

        Raises:
            ModelError: names the key that is missing, unexpected or of another shape, or the base it belongs to.
        """
        stored = storage.read_adapter(folder, self.base.identity)
        own = self._peft.peft_config[self._known(name)]
        if (stored.config.r, stored.config.lora_alpha) != (own.r, own.lora_alpha):
            raise ModelError(
                f"{folder} has rank {stored.config.r} and alpha {stored.config.lora_alpha:g}, but the run's adapters have "
                f"rank {own.r} and alpha {own.lora_alpha:g}: set adapter.rank and adapter.alpha to match"
            )
        self._fill(name, stored, folder)

    def add_frozen(self, name: str, folder: Path) -> None:
        """Add a third adapter, or replace one added before, from a PEFT folder; it can be sampled and never trained.

        Raises:
            ModelError: as `load`; also when `name` is A or B, or no plain name.
        """
        stored = storage.read_adapter(folder, self.base.identity)
        self._make_room(name, stored.config)
        try:
            self._fill(name, stored, folder)
        except ModelError:
            self._peft.delete_adapter(name)
            del self._versions[name]
            self._factors.pop(name, None)
            raise
        finally:
            self._mount()

    def snapshot(self, name: str, source: str) -> None:
        """Make the frozen adapter `name` a copy of `source` as it stands, bit for bit, whether it was there before or not.

        Its version is its source's at this moment, and stays so until it is renewed.

        Raises:
            ModelError: `name` is A or B, or no plain name; no such source.
        """
        with self._lock:
            assert self._training is None, f"snapshot({name!r}) inside training({self._training!r})"
            version = self.version(source)
            if name not in self._versions or name in ADAPTERS:
                self._make_room(name, self._peft.peft_config[source])
                self._mount()
            with torch.no_grad():
                for own, other in zip(self.parameters(name), self.parameters(source), strict=True):
                    own.copy_(other)
            self._versions[name] = version
            self._cache.pop(name, None)

    def _make_room(self, name: str, config: LoraConfig) -> None:
        if name in ADAPTERS:
            raise ModelError(f"{name} is in training: give the frozen adapter another name")
        # It becomes a part of PEFT's paths, and a folder of a checkpoint.
        if not PLAIN_NAME.fullmatch(name):
            raise ModelError(f"a frozen adapter cannot be called {name!r}: use letters, digits, - and _")
        self._factors.pop(name, None)
        if name in self._versions:
            self._peft.delete_adapter(name)
        with torch.random.fork_rng(devices=[]):
            self._peft.add_adapter(name, config)
        self._versions[name] = 0
        self._set_trainable(None)

    def _fill(self, name: str, stored: storage.StoredAdapter, folder: Path) -> None:
        own = self.state(name)
        storage.check_keys(own, stored.tensors, folder)
        with torch.no_grad():
            for key, tensor in own.items():
                tensor.copy_(stored.tensors[key])
        self._versions[name] = stored.version
        self._cache.pop(name, None)

    # --- mounting

    @contextmanager
    def _mounted(self, mount: Callable[[], None]) -> Generator[Any]:
        with self._lock:
            assert self._training is None, f"sampling inside training({self._training!r}) would mix their weights"
            previous, self._mount = self._mount, mount
            mount()
            try:
                yield self.base.model
            finally:
                self._mount = previous
                previous()
                self._check_base()

    def _frozen_mount(self, name: str | None, is_traced: bool) -> Callable[[], None]:
        if name is None:
            return self._mount_bare
        self._known(name)
        if is_traced:
            return lambda: mount_traced(self._sites, name, self.parameters(name))
        if not self._is_merging:
            return lambda: mount_split(self._sites, name)
        weights = self._merged(name)
        return lambda: mount_merged(self._sites, weights)

    def _mount_training(self, name: str, is_traced: bool) -> None:
        if self.settings.dropout > 0.0:
            mount_peft(self._sites, name)
        elif is_traced:
            mount_traced(self._sites, name, self.parameters(name))
        elif self._is_merging:
            mount_trainable(self._sites, name, self._merged(name))
        else:
            mount_split(self._sites, name)

    def _merged(self, name: str) -> list[Tensor]:
        stamp = _stamp(self.parameters(name))
        known, weights = self._cache.get(name, (None, []))
        if known == stamp:
            return weights
        weights = merged_weights(self._sites, name)
        if self._is_caching:
            self._cache[name] = (stamp, weights)
        return weights

    # --- checks

    def _known(self, name: str) -> str:
        if name not in self._versions:
            raise ModelError(f"adapter {name!r} is not loaded: known are {', '.join(self._versions)}")
        return name

    def _set_trainable(self, name: str | None) -> None:
        # PEFT couples "active" and "trainable" and flips the latter as it adds or switches; say both, for all, each time.
        for other in self.names:
            for parameter in self.parameters(other):
                parameter.requires_grad_(other == name)

    def _check_trainable(self, name: str) -> None:
        wanted = {id(parameter) for parameter in self.parameters(name)}
        known = [*self._base_tensors, *(parameter for other in self.names for parameter in self.parameters(other))]
        found = {id(parameter) for parameter in known if parameter.requires_grad}
        assert found == wanted, f"{len(found ^ wanted)} parameters have the wrong trainability while {name!r} trains"

    def _check_base(self) -> None:
        assert _stamp(self._base_tensors) == self._base_stamp, "the frozen base was written to"


def _stamp(tensors: Sequence[Tensor]) -> _Stamp:
    """Tell whether tensors were written to or replaced, without reading them: torch counts in-place writes.

    Not all of them: fused optimisers write uncounted. What an optimiser could reach is compared by `_checksum` as well.
    """
    return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)


@torch.no_grad()
def _checksum(tensors: Sequence[Tensor]) -> int:
    return int(torch.cat([tensor.view(torch.int32).flatten() for tensor in tensors]).sum()) if tensors else 0


def _check_targets(settings: AdapterSettings, sites: Sequence[Site]) -> None:
    if isinstance(settings.targets, str):
        return
    for target in settings.targets:
        # PEFT's own rule: a whole path, or its end.
        if not any(site.path == target or site.path.endswith(f".{target}") for site in sites):
            raise ModelError(
                f"adapter.targets names {target!r}, which matches no layer of the base: leave it out, or mend it"
            )


def _lora_config(settings: AdapterSettings, base_name: str) -> LoraConfig:
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    alpha = int(settings.alpha) if settings.alpha.is_integer() else settings.alpha
    return LoraConfig(
        r=settings.rank,
        lora_alpha=alpha,  # pyright: ignore[reportArgumentType] - PEFT scales by any number
        lora_dropout=settings.dropout,
        target_modules=targets,
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base_name,
    )
