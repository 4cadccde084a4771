from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.llama import LlamaConfig

from agon.config import AdapterSettings
from agon.model.base import BaseIdentity, wrap_model
from agon.model.pair import AdapterPair
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role: str, adapter: str, outcome: str, phi: float, num_tokens: int, stop: str) -> Attempt:
    completion = Completion(
        tuple(range(10, 10 + num_tokens)),
        (-0.5,) * num_tokens,
        "x",
        stop,
        adapter,
        0,  # type: ignore[arg-type]
    )
    return Attempt(role, adapter, Prompt((1, 2), "q"), completion, Verdict(outcome, 0.0), phi)  # type: ignore[arg-type]


@pytest.fixture
def make_match() -> Callable[..., Match]:
    """Return a function (draft outcome, challenge outcome, ...) -> match."""

    def make(draft="wrong", challenge=None, *, phi=1.0, tokens=(3, 4), stop="stop", sample=0):
        drafted = _attempt("drafter", "A", draft, phi, tokens[0], stop)
        if challenge is None:
            return Match(PROBLEM, sample, (drafted,))
        summary = Summary("s", is_empty=False, has_leak=False, num_withheld=1)
        return Match(
            PROBLEM, sample, (drafted,), (summary,), _attempt("challenger", "B", challenge, phi, tokens[1], stop)
        )

    return make


@pytest.fixture(scope="session")
def make_tiny_pair() -> Callable[..., AdapterPair]:
    """Return a function that puts a pair on a tiny base; `scales` are the sizes of the updates of those adapters that have one."""

    def make(*, vocab_size: int, scales: dict[str, float]) -> AdapterPair:
        config = LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=128,
            initializer_range=0.3,
            bos_token_id=None,
            eos_token_id=1,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        base = wrap_model(model, None, identity=BaseIdentity("tiny", "tiny"))
        pair = AdapterPair.create(base, AdapterSettings(rank=4, init="standard"), seed=0)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, scale in scales.items():
                for site in pair.sites:
                    site.up(name).copy_(scale * torch.randn(site.up(name).shape, generator=generator))
        return pair

    return make
