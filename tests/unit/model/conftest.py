"""Tiny bases and pairs for the tests of `agon.model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agon.config import AdapterSettings
from agon.model.base import Base, BaseIdentity, hash_parameters, wrap_model
from agon.model.pair import AdapterPair

PROBE = (5, 9, 2, 11, 30, 7, 1, 22)


@pytest.fixture
def make_base() -> Callable[..., Base]:
    def make(*, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: Any) -> Base:
        config = LlamaConfig(
            **{
                "vocab_size": 48,
                "hidden_size": 32,
                "intermediate_size": 56,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": 64,
                "eos_token_id": 2,
                "initializer_range": 0.2,
                **overrides,
            }
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = LlamaForCausalLM(config).to(dtype)
        return wrap_model(model, None, identity=BaseIdentity("tiny", hash_parameters(model)))

    return make


@pytest.fixture
def make_pair(make_base: Callable[..., Base]) -> Callable[..., AdapterPair]:
    def make(base: Base | None = None, *, seed: int = 0, **adapter: Any) -> AdapterPair:
        settings = AdapterSettings(**{"rank": 4, "alpha": 8.0, "init": "standard", **adapter})
        return AdapterPair.create(base or make_base(), settings, seed=seed, probe_prompts=[PROBE, PROBE[::-1]])

    return make


@pytest.fixture
def logits() -> Callable[[Any], torch.Tensor]:
    def compute(model: Any) -> torch.Tensor:
        return model(torch.tensor([PROBE]), use_cache=False).logits[0]

    return compute


@pytest.fixture
def randomise() -> Callable[..., None]:
    """Fill an adapter with numbers large enough to change what the model says."""

    def fill(pair: AdapterPair, name: str, seed: int = 1) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in pair.parameters(name):
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))

    return fill


@pytest.fixture
def gemma4_config() -> dict[str, Any]:
    """A composite configuration whose text part is tiny; left to itself it has five billion parameters."""
    text = {
        "vocab_size": 48,
        "vocab_size_per_layer_input": 48,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_size_per_layer_input": 8,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "max_position_embeddings": 64,
        "final_logit_softcapping": 30.0,
        "initializer_range": 0.2,
    }
    return {"text_config": text}
