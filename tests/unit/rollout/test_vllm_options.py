from __future__ import annotations

from pathlib import Path

import pytest
from transformers.models.qwen3 import Qwen3Config

from agon.errors import EngineError
from agon.rollout.vllm_options import (
    LoraRoom,
    ServerOptions,
    cache_bytes_per_token,
    capture_sizes,
    engine_arguments,
    lora_rank,
    size_cache,
)

GIB = 2**30


def test_a_token_of_qwen3_06b_takes_114688_bytes():
    config = Qwen3Config(num_hidden_layers=28, num_key_value_heads=8, head_dim=128, num_attention_heads=16)
    assert cache_bytes_per_token(config, 2) == 114_688  # as measured


def test_head_size_follows_from_the_width_where_a_config_names_none():
    class Config:
        num_hidden_layers, num_key_value_heads, num_attention_heads, hidden_size = 2, 2, 4, 32

    assert cache_bytes_per_token(Config, 4) == 2 * 2 * 2 * 8 * 4


def test_the_cache_takes_what_the_rows_need_if_that_is_less_than_its_share():
    size = size_cache(bytes_per_token=1000, max_rows=10, longest_row=50, context_length=4096, free_bytes=GIB, share=0.5)
    assert (size.num_bytes, size.context_length) == (500_000, 500)


def test_the_cache_takes_its_share_if_the_rows_need_more():
    size = size_cache(
        bytes_per_token=1000, max_rows=10**6, longest_row=50, context_length=4096, free_bytes=GIB, share=0.25
    )
    assert (size.num_bytes, size.context_length) == (GIB // 4, 4096)


def test_a_share_too_small_for_one_row_is_refused_with_the_numbers():
    with pytest.raises(
        EngineError, match=r"one row of 2000 tokens needs 1\.86 GiB .*_share 0\.1 of the free 4\.00 GiB"
    ):
        size_cache(
            bytes_per_token=10**6, max_rows=4, longest_row=2000, context_length=4096, free_bytes=4 * GIB, share=0.1
        )


def test_graphs_are_fine_for_small_batches_and_always_cover_the_largest():
    assert capture_sizes(1) == [1]
    assert capture_sizes(100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert capture_sizes(256) == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]


@pytest.mark.parametrize(("rank", "room"), [(1, 1), (4, 8), (8, 8), (16, 16), (24, 32), (33, 64), (512, 512)])
def test_a_rank_gets_the_next_room_up(rank, room):
    assert lora_rank(rank) == room


def test_a_rank_that_vllm_cannot_serve_is_refused_before_it_starts():
    with pytest.raises(EngineError, match=r"adapter\.rank is 513.*swapped"):
        lora_rank(513)


def test_arguments_say_what_the_engine_relies_on():
    options = ServerOptions(Path("model"), 128, 4096, 5 * GIB, 0.6)
    arguments = engine_arguments(options, "bfloat16")
    assert arguments["kv_cache_memory_bytes"] == 5 * GIB
    assert arguments["logprobs_mode"] == "processed_logprobs"
    assert arguments["generation_config"] == "vllm"  # a model's own top_k must not cut what is sampled
    assert arguments["compilation_config"]["cudagraph_capture_sizes"][-1] == 128
    assert "enable_lora" not in arguments
    lora = engine_arguments(ServerOptions(Path("model"), 128, 4096, GIB, 0.6, LoraRoom(24, 2)), "bfloat16")
    assert (lora["enable_lora"], lora["max_lora_rank"], lora["max_loras"]) == (True, 32, 2)
