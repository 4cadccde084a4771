"""Tiny bases, pairs and samples for the tests of `agon.learner`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    Gemma4TextConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from agon.config import AdapterSettings, TrainSettings
from agon.learner.learner import Learner
from agon.learner.packing import Sample
from agon.model.base import Base, BaseIdentity, hash_parameters, wrap_model
from agon.model.pair import AdapterPair

VOCABULARY = 40
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "initializer_range": 0.2,
}
FAMILIES: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**SHAPE),
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "qwen2-window": lambda: Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "qwen3": lambda: Qwen3Config(**SHAPE, head_dim=8),
    "qwen3.5": lambda: Qwen3_5TextConfig(
        **SHAPE,
        head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **SHAPE,
        head_dim=8,
        query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=5,
    ),
    "gemma4": lambda: Gemma4TextConfig(
        **{**SHAPE, "num_hidden_layers": 4},
        head_dim=8,
        layer_types=["sliding_attention", "full_attention"] * 2,
        sliding_window=5,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=VOCABULARY,
        final_logit_softcapping=30.0,
        num_kv_shared_layers=2,
    ),
}


@pytest.fixture
def make_base() -> Callable[..., Base]:
    def make(family: str = "llama", *, seed: int = 0) -> Base:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = AutoModelForCausalLM.from_config(FAMILIES[family]())
        return wrap_model(model, None, identity=BaseIdentity(family, hash_parameters(model)))

    return make


@pytest.fixture
def make_pair(make_base: Callable[..., Base]) -> Callable[..., AdapterPair]:
    """A pair whose adapters are both large enough to matter."""

    def make(base: Base | None = None, **adapter: Any) -> AdapterPair:
        settings = AdapterSettings(**{"rank": 4, "alpha": 8.0, "init": "standard", **adapter})
        pair = AdapterPair.create(base or make_base(), settings, seed=0)
        for seed, name in enumerate(pair.names):
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for parameter in pair.parameters(name):
                    parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
        return pair

    return make


@pytest.fixture
def make_learner() -> Callable[..., Learner]:
    def make(pair: AdapterPair, *, temperature: float = 1.0, **settings: Any) -> Learner:
        own = TrainSettings(**{"learning_rate": 1e-2, "max_logprob_gap": 100.0, "importance_cap": None, **settings})
        return Learner(pair, own, temperature=temperature, max_completion_tokens=32)

    return make


@pytest.fixture
def make_samples() -> Callable[..., list[Sample]]:
    """Random samples of ragged lengths, with made-up engine logprobs."""

    def make(count: int = 12, *, seed: int = 0, longest: int = 14) -> list[Sample]:
        rng = random.Random(seed)
        samples: list[Sample] = []
        for _ in range(count):
            prompt = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 6)))
            completion = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(1, longest)))
            logprobs = tuple(-4.0 * rng.random() for _ in completion)
            samples.append(Sample(prompt, completion, logprobs, advantage=rng.uniform(-1.5, 1.5)))
        return samples

    return make
