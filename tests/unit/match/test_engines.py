from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.qwen3 import Qwen3Config

from agon.config import RolloutSettings, Settings
from agon.errors import ConfigError, EngineError
from agon.match import engines
from agon.match.engines import (
    adapter_mode,
    engine_name,
    open_engine,
    open_stepping_engine,
    server_options,
    serving_mode,
    start_host,
)
from agon.model.base import BaseIdentity, wrap_model
from agon.records import Request
from agon.rollout.torch_engine import TorchEngine
from agon.rollout.torch_stepping import TorchSteppingEngine
from agon.rollout.vllm_server import start_server

GIB = 2**30


@pytest.fixture(scope="module")
def base():
    config = Qwen3Config(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        eos_token_id=1,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    return wrap_model(model, None, identity=BaseIdentity("tiny", "tiny"))


@pytest.fixture
def on_cuda(base, monkeypatch):
    """The same base, said to be on a card with 8 of 10 GiB free, and large."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (8 * GIB, 10 * GIB))
    monkeypatch.setattr(engines, "_TINY_PARAMETERS", 1000)
    monkeypatch.setattr(engines, "is_available", lambda: True)
    return replace(base, device=torch.device("cuda"))


def _settings(**rollout):
    return Settings.model_validate({"rollout": rollout})


def test_a_cpu_samples_with_torch(base):
    assert engine_name(RolloutSettings(), base) == "torch"
    assert start_host(_settings(), base) is None
    assert isinstance(open_engine(RolloutSettings(), base, None), TorchEngine)


def test_vllm_asked_for_on_a_cpu_is_refused(base):
    with pytest.raises(ConfigError, match=r'rollout\.engine is "vllm", but the base is on cpu'):
        start_host(_settings(engine="vllm"), base)


def test_auto_takes_vllm_on_a_card_where_it_is_installed_and_the_base_is_not_tiny(on_cuda, monkeypatch):
    assert engine_name(RolloutSettings(), on_cuda) == "vllm"
    assert engine_name(RolloutSettings(engine="torch"), on_cuda) == "torch"
    monkeypatch.setattr(engines, "_TINY_PARAMETERS", 10**9)
    assert engine_name(RolloutSettings(), on_cuda) == "torch"
    monkeypatch.setattr(engines, "_TINY_PARAMETERS", 1000)
    monkeypatch.setattr(engines, "is_available", lambda: False)
    assert engine_name(RolloutSettings(), on_cuda) == "torch"


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_vllm_that_is_not_installed_is_named_with_the_remedy(on_cuda):
    options = server_options(_settings(), on_cuda, "swapped")
    with pytest.raises(EngineError, match=r'pip install "agon-rl\[gpu\]"'):
        start_server(options, dtype=torch.bfloat16, stop_ids=(1,))


def test_adapters_are_swapped_unless_the_copy_is_a_large_part_of_the_card(on_cuda, monkeypatch):
    assert adapter_mode(_settings(), on_cuda) == "swapped"
    assert adapter_mode(_settings(vllm_adapters="multi-lora"), on_cuda) == "multi-lora"
    # Per layer q 64x32, k and v 32x32, o 32x64, and 3 of 48x32: 10,752 numbers, two layers, 4 bytes.
    for total, mode in ((10 * 86_016, "swapped"), (10 * 86_016 - 10, "multi-lora")):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None, total=total: (total, total))
        assert adapter_mode(_settings(), on_cuda) == mode


def test_a_cpu_serves_with_torch_and_as_many_rows_as_the_settings_allow(base):
    engine = open_stepping_engine(RolloutSettings(max_rows=3), base, None)
    assert isinstance(engine, TorchSteppingEngine)
    for seed in range(9):
        engine.add(Request((5, 6), None, 40, seed))
    assert len(engine.step()) == 3


@pytest.mark.parametrize("asked", ["auto", "multi-lora"])
def test_adapters_are_served_side_by_side(on_cuda, monkeypatch, asked):
    options = []

    def stop(given, **_):
        options.append(given)
        raise EngineError("far enough")

    monkeypatch.setattr(engines, "start_server", stop)
    for is_serving in (True, False):
        with pytest.raises(EngineError, match="far enough"):
            start_host(_settings(vllm_adapters=asked), on_cuda, is_serving=is_serving)
    assert options[0].lora is not None
    assert (options[1].lora is None) == (asked == "auto")


def test_swapped_adapters_are_not_served(on_cuda, base):
    with pytest.raises(ConfigError, match=r'rollout\.vllm_adapters is "swapped", .* set it to "multi-lora"'):
        start_host(_settings(vllm_adapters="swapped"), on_cuda, is_serving=True)
    # It says how vLLM serves them: where torch samples it has no meaning.
    assert start_host(_settings(vllm_adapters="swapped"), base, is_serving=True) is None
    assert serving_mode(RolloutSettings()) == "multi-lora"


def test_the_cache_follows_from_rows_lengths_and_free_memory(on_cuda, monkeypatch):
    settings = Settings.model_validate(
        {
            "model": {"base": "quickstart"},
            "task": {"max_prompt_tokens": 100},
            "rollout": {
                "max_rows": 10,
                "max_draft_tokens": 50,
                "max_challenge_tokens": 40,
                "max_summary_tokens": 20,
            },
        }
    )
    options = server_options(settings, on_cuda, "multi-lora")
    # 2 layers x (key and value) x 2 heads x 16 numbers x 4 bytes = 512 bytes a token; 100 + max(50, 20 + 40) tokens a row.
    assert options.cache_bytes == 10 * 160 * 512
    assert options.context_length == 1600
    assert options.lora is not None
    assert options.lora.rank == settings.adapter.rank
    assert server_options(settings, on_cuda, "swapped").lora is None


def test_vllm_claims_what_it_needs_and_not_what_is_free(on_cuda, monkeypatch):
    # Two cells that start side by side: the second one's memory may be gone between its look and vLLM's own.
    settings = _settings(max_rows=10)
    options = server_options(settings, on_cuda, "swapped")
    needed = on_cuda.num_parameters * 4 + options.cache_bytes + 2 * GIB
    assert options.memory_share == pytest.approx(needed / (10 * GIB))
    # Where it needs all there is, a tenth stays free for what is not counted.
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device=None: (2 * GIB, 10 * GIB))
    assert server_options(settings, on_cuda, "swapped").memory_share == pytest.approx(0.9 * 0.2)
