"""Which engine samples, and its start."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from agon.config import RolloutSettings, Settings
from agon.errors import ConfigError
from agon.model.base import Base
from agon.model.locate import find_model_folder
from agon.model.pair import AdapterPair
from agon.rollout.engine import Engine
from agon.rollout.stepping import SteppingEngine
from agon.rollout.torch_engine import TorchEngine
from agon.rollout.torch_stepping import TorchSteppingEngine
from agon.rollout.vllm_adapters import Adapters, SwappedAdapters, VersionedAdapters
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_options import LoraRoom, ServerOptions, cache_bytes_per_token, size_cache
from agon.rollout.vllm_server import VllmServer, is_available, start_server
from agon.rollout.vllm_stepping import VllmSteppingEngine
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights, adapted_names

AdapterMode = Literal["swapped", "multi-lora"]

# A tiny base decodes faster in plain torch than vLLM takes its steps, and has head sizes that vLLM's kernels lack.
_TINY_PARAMETERS = 20_000_000
_ADAPTER_ROOM = 2
# Most of the card that a second copy of the adapted weights may take.
_COPY_SHARE = 0.1
# What vLLM takes beside weights and cache: activations and CUDA graphs.
_VLLM_OVERHEAD_BYTES = 2 * 2**30
# vLLM refuses to start if the share of the card that it is given is not free: never ask for all that is.
_CLAIM = 0.9


@dataclass(frozen=True, slots=True)
class Host:
    """A vLLM server whose weights the base shares, before there are adapters."""

    server: VllmServer
    fused: FusedWeights
    mode: AdapterMode


def engine_name(settings: RolloutSettings, base: Base) -> Literal["torch", "vllm"]:
    """Say which engine samples.

    Raises:
        ConfigError: vLLM is asked for where it cannot run.
    """
    is_on_cuda = base.device.type == "cuda"
    if settings.engine == "vllm" and not is_on_cuda:
        raise ConfigError(f'rollout.engine is "vllm", but the base is on {base.device.type}: vLLM needs a CUDA device')
    if settings.engine == "auto":
        return "vllm" if is_vllm_fit(base.device.type, base.num_parameters) else "torch"
    return settings.engine


def is_vllm_fit(device: str, num_parameters: int) -> bool:
    """Tell whether `auto` takes vLLM for a base of so many parameters on a device of this type."""
    return is_available() and device == "cuda" and num_parameters >= _TINY_PARAMETERS


def start_host(settings: Settings, base: Base, *, is_serving: bool = False) -> Host | None:
    """Start vLLM if it is to sample, and let the base use its weights; None where torch samples.

    Called before a pair is made: from then on the base's tensors stay where they are. With adapters side by side learner and engine
    hold one copy of the base; with swapped ones the adapted matrices exist twice, the learner's never being written to.

    A stepping engine needs a host that `is_serving`: adapters side by side, whatever `auto` says.

    Raises:
        ConfigError: swapped adapters are asked for where several are to be served.
        EngineError: vLLM does not start, or keeps the weights in a way that cannot be shared.
    """
    if engine_name(settings.rollout, base) == "torch":
        return None
    mode = serving_mode(settings.rollout) if is_serving else adapter_mode(settings, base)
    server = start_server(server_options(settings, base, mode), dtype=base.dtype, stop_ids=base.stop_ids)
    fused = FusedWeights(server.model, base)
    written = adapted_names(base, settings.adapter.targets) if mode == "swapped" else set[str]()
    fused.share(but_not=written)
    torch.cuda.empty_cache()
    return Host(server, fused, mode)


def open_engine(
    settings: RolloutSettings, source: AdapterPair | Base, host: Host | None, *, probe: Sequence[int] = ()
) -> Engine:
    """Open the engine over a pair or a bare base; with vLLM, look at once whether each adapter acts. `probe` is a text to look through.

    Raises:
        EngineError: an adapter does not act as it does in the learner.
    """
    return TorchEngine(source, max_rows=settings.max_rows) if host is None else _open_vllm(source, host, probe=probe)


def open_stepping_engine(settings: RolloutSettings, source: AdapterPair | Base, host: Host | None) -> SteppingEngine:
    """Open an engine that is driven step by step, over a pair or a bare base; `host` was started for serving.

    Raises:
        EngineError: an adapter does not act as it does in the learner.
    """
    if host is None:
        return TorchSteppingEngine(source, max_rows=settings.max_rows)
    return VllmSteppingEngine(_open_vllm(source, host, probe=()))


def _open_vllm(source: AdapterPair | Base, host: Host, *, probe: Sequence[int]) -> VllmEngine:
    if isinstance(source, Base):
        return VllmEngine(host.server, source)
    adapters: Adapters
    if host.mode == "swapped":
        adapters = SwappedAdapters(host.server, SwappedWeights(host.fused, source.sites))
    else:
        adapters = VersionedAdapters(host.server, host.fused, source, room=_ADAPTER_ROOM)
    engine = VllmEngine(host.server, source, adapters)
    if len(probe) > 1:
        engine.use_probe(probe)
    for name in source.names:
        engine.load(name)
    return engine


def serving_mode(settings: RolloutSettings) -> AdapterMode:
    """Say how the adapters are served to whoever asks: side by side.

    Raises:
        ConfigError: the settings ask for one at a time.
    """
    if settings.vllm_adapters == "swapped":
        raise ConfigError(
            'rollout.vllm_adapters is "swapped", but drafts and challenges of a server run side by side: set it to "multi-lora"'
        )
    return "multi-lora"


def adapter_mode(settings: Settings, base: Base) -> AdapterMode:
    """Say how the adapters are served.

    Swapped measured faster in every regime tried, also where challenges could have joined early (docs/benchmarks.md). It holds the
    adapted weights twice; where that is a large part of the card they are served side by side, with one copy.
    """
    asked = settings.rollout.vllm_adapters
    if asked != "auto":
        return asked
    written = adapted_names(base, settings.adapter.targets)
    copied = sum(base.model.get_parameter(name).numel() for name in written) * base.dtype.itemsize
    return "swapped" if copied <= _COPY_SHARE * torch.cuda.mem_get_info(base.device)[1] else "multi-lora"


def server_options(settings: Settings, base: Base, mode: AdapterMode) -> ServerOptions:
    """Work out the server's memory and limits from what the run needs and what is free on the card.

    The cache's size is given outright. The share of the card, which vLLM only compares with what is free, is no more than it needs:
    others that start beside it on the same card take from the free memory between this look and vLLM's own.
    """
    own = settings.rollout
    free, total = torch.cuda.mem_get_info(base.device)
    longest = settings.task.max_prompt_tokens + max(
        own.max_draft_tokens, own.max_summary_tokens + own.max_challenge_tokens
    )
    cache = size_cache(
        bytes_per_token=cache_bytes_per_token(base.model.config.get_text_config(), base.dtype.itemsize),
        max_rows=own.max_rows,
        longest_row=longest,
        context_length=base.context_length,
        free_bytes=free,
        share=own.engine_memory_share,
    )
    if cache.context_length < base.context_length and cache.context_length < 2 * longest:
        warnings.warn(
            f"vLLM's key-value cache holds {cache.context_length} tokens, less than the base's context of "
            f"{base.context_length}: raise rollout.engine_memory_share for longer sequences",
            stacklevel=2,
        )
    needed = base.num_parameters * base.dtype.itemsize + cache.num_bytes + _VLLM_OVERHEAD_BYTES
    return ServerOptions(
        folder=find_model_folder(settings.model.base, settings.model.revision),
        max_rows=own.max_rows,
        context_length=cache.context_length,
        cache_bytes=cache.num_bytes,
        memory_share=min(_CLAIM * free, needed) / total,
        lora=LoraRoom(settings.adapter.rank, _ADAPTER_ROOM) if mode == "multi-lora" else None,
        trust_remote_code=settings.model.trust_remote_code,
    )
