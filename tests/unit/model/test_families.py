"""Which families may be packed."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    FalconMambaConfig,
    Gemma4TextConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3NextConfig,
    RecurrentGemmaConfig,
)

from agon.model.families import carries_state, logits_agree


@pytest.mark.parametrize("config", [LlamaConfig, Qwen2Config, Qwen3Config, Gemma4TextConfig])
def test_families_of_attention_alone_carry_no_state(config):
    assert not carries_state(config())


@pytest.mark.parametrize("config", [Qwen3_5TextConfig, Qwen3NextConfig, FalconMambaConfig, RecurrentGemmaConfig])
def test_families_with_a_state_along_the_sequence_are_known_by_configuration(config):
    assert carries_state(config())


def test_logits_agree_only_when_every_sequence_is_as_if_alone(make_base):
    base = make_base()

    def alone(rows):
        return [base.model(torch.tensor([row])).logits[0] for row in rows]

    def leaking(rows):
        # What packing without separation would do: the second sequence goes on where the first ended.
        whole = base.model(torch.tensor([[token for row in rows for token in row]])).logits[0]
        return list(whole.split([len(row) for row in rows]))

    assert logits_agree(base, alone)
    assert not logits_agree(base, leaking)
    assert not logits_agree(base, lambda rows: [logits * float("nan") for logits in alone(rows)])
