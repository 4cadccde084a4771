"""vLLM in this process: the only file that knows its API (0.26). Requests go in and tokens come out at the engine's core.

The core is driven directly. vLLM's front end builds a Python object for every token and detokenises as it goes; with logprobs
asked for, that costs up to half the speed. Ids and logprobs are read here from the arrays that the core hands out.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from agon.errors import EngineError
from agon.records import Request
from agon.rollout.vllm_options import ServerOptions, engine_arguments

# What a step of the core may go without any output before something is wrong: prefills of long prompts, batches in flight.
_MAX_IDLE_STEPS = 10_000
_MAX_DRAIN_STEPS = 16
_MIN_TEMPERATURE, _MAX_TEMPERATURE = 0.01, 2.0
_ENVIRONMENT = {
    # The engine must live in this process: its weights are written, and some of them shared.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # FlashInfer's sampler honours no seeds and needs a compiler on the machine.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    # Standard output belongs to the command that runs: `--json` promises one document there.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
}


# Models that this process has started vLLM with. Its pool of CUDA graphs is the process's, and does not outlive the first engine.
_started: list[str] = []


class Piece(NamedTuple):
    """New tokens of a request; `stop_reason` is set with the last of them. Units: nats."""

    request_id: str
    token_ids: list[int]
    logprobs: list[float]
    prompt_logprobs: list[float]
    stop_reason: str | None


def is_available() -> bool:
    """Tell whether vLLM can be imported."""
    return importlib.util.find_spec("vllm") is not None


def was_started() -> bool:
    """Tell whether this process has started vLLM, which a process can do once."""
    return bool(_started)


class VllmServer:
    """A running vLLM engine: add requests, take steps, write adapters. One thread at a time."""

    def __init__(self, engine: Any, options: ServerOptions, stop_ids: Iterable[int]) -> None:
        self.options = options
        self._engine = engine
        self._client: Any = engine.engine_core
        self._stop_ids = list(stop_ids)
        self._numbers = itertools.count()
        self._num_idle = 0

    @property
    def model(self) -> nn.Module:
        """The engine's model, its weights fused as vLLM keeps them."""
        return self._client.collective_rpc("get_model")[0]

    # --- requests

    def add(self, request: Request, route: Any | None = None, *, wants_prompt: bool = False) -> str:
        """Queue a request, also while others run, and return its id. `route` is what `load_adapter` returned.

        Raises:
            EngineError: a temperature that vLLM would silently change or refuse.
        """
        check_temperature(request)
        params = _vllm("sampling_params").SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            max_tokens=request.max_tokens,
            stop_token_ids=self._stop_ids,
            logprobs=0,
            prompt_logprobs=0 if wants_prompt else None,
            detokenize=False,
        )
        request_id = str(next(self._numbers))
        self._client.add_request(
            _vllm("v1.engine").EngineCoreRequest(
                request_id=request_id,
                prompt_token_ids=list(request.prompt_ids),
                mm_features=None,
                sampling_params=params,
                pooling_params=None,
                arrival_time=time.time(),
                lora_request=route,
                cache_salt=None,
                data_parallel_rank=None,
            )
        )
        return request_id

    def step(self) -> list[Piece]:
        """Run the engine one step and return what came out of an earlier one, if anything did.

        Raises:
            EngineError: nothing has come out for a very long time, or the engine gave a request up.
        """
        outputs = self._client.get_output().outputs
        self._num_idle = 0 if outputs else self._num_idle + 1
        if self._num_idle > _MAX_IDLE_STEPS:
            self._num_idle = 0  # whoever asks next is waited for as long
            raise EngineError(
                f"vLLM took {_MAX_IDLE_STEPS} steps without a token: its key-value cache may be too small for one row; "
                "raise rollout.engine_memory_share"
            )
        return [_piece(output) for output in outputs]

    def abort(self, request_ids: Iterable[str]) -> None:
        """Give requests up. What is in flight may still bring tokens for them; `settle` ends that."""
        self._client.abort_requests(list(request_ids))

    def settle(self) -> None:
        """Let batches that are still in flight end, so that weights may be written and caches dropped.

        Raises:
            EngineError: they do not end.
        """
        core = self._client.engine_core
        for _ in range(_MAX_DRAIN_STEPS):
            if not core.scheduler.has_requests() and not core.batch_queue:
                return
            self._client.get_output()
        raise EngineError("vLLM still has requests that nobody waits for: close the engine and open it again")

    def forget_prefixes(self) -> None:
        """Drop the key-value cache of every prompt seen so far: it was computed with other weights.

        Raises:
            EngineError: vLLM kept it.
        """
        self.settle()
        if not self._client.reset_prefix_cache():
            raise EngineError("vLLM kept its prefix cache while weights change: samples would mix two adapters")

    # --- adapters side by side

    def load_adapter(self, name: str, number: int, matrices: Mapping[str, Tensor], rank: int) -> Any:
        """Load an adapter from memory under an id that was never used before, and return the route for its requests.

        `matrices` are named as PEFT writes them; scales are already multiplied in.
        """
        manager = self._lora_manager()
        mapper = getattr(self.model, "hf_to_vllm_mapper", None)
        loaded = _vllm("lora.lora_model").LoRAModel.from_lora_tensors(
            lora_model_id=number,
            tensors=dict(matrices),
            peft_helper=_vllm("lora.peft_helper").PEFTHelper(r=rank, lora_alpha=rank, target_modules=[]),
            device=str(next(iter(matrices.values())).device),
            weights_mapper=None if mapper is None else mapper.get_unstacked_mapper(),
        )
        # vLLM reads adapters from folders only; what it would have read is given instead.
        manager._load_adapter = lambda request: loaded
        try:
            route = _vllm("lora.request").LoRARequest(lora_name=name, lora_int_id=number, lora_path="in memory")
            self._client.add_lora(route)
        finally:
            del manager._load_adapter
        return route

    def drop_adapter(self, number: int) -> None:
        """Free the room of an adapter."""
        self._client.remove_lora(number)

    def adapter_layers(self) -> Mapping[str, Any]:
        """Every layer that has room for adapters, by its path."""
        return self._lora_manager()._adapter_manager.modules

    def slot_of(self, number: int) -> int:
        """Return the place of a loaded adapter in the layers' buffers."""
        return self._lora_manager()._adapter_manager.lora_index_to_id.index(number)

    def close(self) -> None:
        """End the engine and give its memory back."""
        self._client.shutdown()

    def _lora_manager(self) -> Any:
        return self._client.collective_rpc(lambda worker: worker.model_runner.lora_manager)[0]


def check_temperature(request: Request) -> None:
    """Refuse a temperature that vLLM would silently change, or refuse.

    Raises:
        EngineError: it is one.
    """
    temperature = request.temperature
    if temperature and not _MIN_TEMPERATURE <= temperature <= _MAX_TEMPERATURE:
        raise EngineError(
            f"temperature {temperature:g} is outside of what vLLM samples at: give 0, or {_MIN_TEMPERATURE:g} to "
            f'{_MAX_TEMPERATURE:g}, or set rollout.engine = "torch"'
        )


def start_server(options: ServerOptions, *, dtype: torch.dtype, stop_ids: Iterable[int]) -> VllmServer:
    """Start vLLM on the present CUDA device, in this process.

    Raises:
        EngineError: vLLM is not installed, or refuses the model or the memory.
    """
    if not is_available():
        raise EngineError(
            'rollout.engine is "vllm", but vLLM is not installed: pip install "agon-rl[gpu]", or use "torch"'
        )
    os.environ |= _ENVIRONMENT
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    arguments = engine_arguments(options, str(dtype).removeprefix("torch."))
    try:
        engine = _vllm("v1.engine.llm_engine").LLMEngine.from_engine_args(
            _vllm("engine.arg_utils").EngineArgs(**arguments)
        )
    except (ValueError, RuntimeError, NotImplementedError, ImportError) as error:
        if _started:
            raise EngineError(
                f"vLLM does not start with {options.folder.name}: this process has run it before, with {_started[-1]}, and a process "
                "can do so once: begin a new one"
            ) from error
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise EngineError(
            f'vLLM does not start with {options.folder.name} ({reason[0][:200]}): set rollout.engine = "torch", or change '
            "what it names"
        ) from error
    _started.append(options.folder.name)
    return VllmServer(engine, options, stop_ids)


def _vllm(module: str) -> Any:
    """Import a part of vLLM, which is large and not always there, when it is first needed."""
    return importlib.import_module(f"vllm.{module}")


def _piece(output: Any) -> Piece:
    if output.new_logprobs is None:
        logprobs: list[float] = []
    else:
        logprobs = output.new_logprobs.logprobs[:, 0].tolist()
    prompt = output.new_prompt_logprobs_tensors
    return Piece(
        request_id=output.request_id,
        token_ids=output.new_token_ids,
        logprobs=logprobs,
        prompt_logprobs=[] if prompt is None else prompt.logprobs[:, 0].tolist(),
        stop_reason=None if output.finish_reason is None else str(output.finish_reason),
    )
