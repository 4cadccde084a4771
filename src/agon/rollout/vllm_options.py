"""How vLLM is started: memory, graph sizes, limits. Worked out here, without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agon.errors import EngineError

# Ranks that vLLM has room for; an adapter takes the next one up.
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
_SMALL_SIZES = (1, 2, 4, 8, 16, 32)
_SIZE_STEP = 64
_MAX_BATCHED_TOKENS = 16384


@dataclass(frozen=True, slots=True)
class LoraRoom:
    """Room for adapters that are served side by side."""

    rank: int
    adapters: int


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What a server is started with. `cache_bytes` is the size of its key-value cache."""

    folder: Path
    max_rows: int
    context_length: int
    cache_bytes: int
    memory_share: float
    lora: LoraRoom | None = None
    trust_remote_code: bool = False


def cache_bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """Return what one token of context takes in the key-value cache, all layers together."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head * bytes_per_number


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The key-value cache: its bytes, and the longest sequence that may be asked for."""

    num_bytes: int
    context_length: int


def size_cache(
    *, bytes_per_token: int, max_rows: int, longest_row: int, context_length: int, free_bytes: int, share: float
) -> CacheSize:
    """Give the cache what `max_rows` rows of the longest length need, but at most `share` of the free memory.

    With less than it needs vLLM lets some rows wait, which costs time and nothing else.

    Raises:
        EngineError: not even one row would fit.
    """
    longest = min(longest_row, context_length)
    num_bytes = min(max_rows * longest * bytes_per_token, int(share * free_bytes))
    tokens = num_bytes // bytes_per_token
    if tokens < longest:
        raise EngineError(
            f"one row of {longest} tokens needs {longest * bytes_per_token / 2**30:.2f} GiB of key-value cache, but "
            f"rollout.engine_memory_share {share:g} of the free {free_bytes / 2**30:.2f} GiB is less: raise the share, or lower "
            "the caps on tokens"
        )
    return CacheSize(num_bytes, min(context_length, tokens))


def capture_sizes(max_rows: int) -> list[int]:
    """Return the batch sizes that get a CUDA graph of their own: fine where batches are small, then every 64 rows.

    A batch between two sizes is padded to the larger. Each size costs start-up time and memory.
    """
    sizes = {size for size in _SMALL_SIZES if size <= max_rows}
    return sorted(sizes | set(range(_SIZE_STEP, max_rows, _SIZE_STEP)) | {max_rows})


def lora_rank(rank: int) -> int:
    """Return the rank that vLLM must make room for.

    Raises:
        EngineError: the adapter is larger than any that vLLM serves.
    """
    for known in _LORA_RANKS:
        if rank <= known:
            return known
    raise EngineError(
        f"adapter.rank is {rank}, but vLLM serves adapters up to rank {_LORA_RANKS[-1]}: lower it, or set "
        'rollout.vllm_adapters = "swapped"'
    )


def engine_arguments(options: ServerOptions, dtype: str) -> dict[str, Any]:
    """Return the arguments of vLLM's `EngineArgs`.

    Nothing is compiled: CUDA graphs of decoding batches take away what compiling would save, and compiling is most of a start.
    Logprobs are those of the distribution that was sampled from. The model's generation defaults are not used.
    """
    arguments: dict[str, Any] = {
        "model": str(options.folder),
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "dtype": dtype,
        "trust_remote_code": options.trust_remote_code,
        "max_model_len": options.context_length,
        "max_num_seqs": options.max_rows,
        "max_num_batched_tokens": max(_MAX_BATCHED_TOKENS, options.max_rows),
        "kv_cache_memory_bytes": options.cache_bytes,
        "gpu_memory_utilization": options.memory_share,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
        "enable_flashinfer_autotune": False,
        "seed": 0,
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": capture_sizes(options.max_rows),
            "max_cudagraph_capture_size": options.max_rows,
        },
    }
    if options.lora is not None:
        arguments |= {
            "enable_lora": True,
            "max_loras": options.lora.adapters,
            "max_lora_rank": lora_rank(options.lora.rank),
        }
    return arguments
