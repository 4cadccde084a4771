"""Tiny random models of each family the paper uses, and what a plain forward pass says about a completion."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from peft import LoraConfig, PeftModel, set_peft_model_state_dict
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.gemma4 import Gemma4TextConfig
from transformers.models.llama import LlamaConfig
from transformers.models.qwen2 import Qwen2Config
from transformers.models.qwen3 import Qwen3Config
from transformers.models.qwen3_5 import Qwen3_5TextConfig

from agon.config import AdapterSettings
from agon.model.base import Base, BaseIdentity, wrap_model
from agon.model.pair import AdapterPair
from agon.records import Completion, Request
from agon.rollout.vllm_options import ServerOptions
from agon.rollout.vllm_server import VllmServer

VOCAB = 48
EOS = 1

_SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,
    "bos_token_id": None,
    "eos_token_id": EOS,
    "pad_token_id": EOS,
}


def _llama() -> LlamaConfig:
    return LlamaConfig(**_SMALL, num_key_value_heads=4)


def _qwen2() -> Qwen2Config:
    return Qwen2Config(**_SMALL, num_key_value_heads=2, tie_word_embeddings=True)


def _qwen2_window() -> Qwen2Config:
    return Qwen2Config(**_SMALL, num_key_value_heads=2, use_sliding_window=True, sliding_window=5, max_window_layers=1)


def _qwen3() -> Qwen3Config:
    return Qwen3Config(**_SMALL, num_key_value_heads=1, head_dim=16)


def _qwen3_5() -> Qwen3_5TextConfig:
    return Qwen3_5TextConfig(
        **{**_SMALL, "num_hidden_layers": 4, "initializer_range": 0.2},
        num_key_value_heads=2,
        head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    )


def _gemma4() -> Gemma4TextConfig:
    return Gemma4TextConfig(
        **{**_SMALL, "num_hidden_layers": 4, "initializer_range": 0.2},
        num_key_value_heads=1,
        num_global_key_value_heads=1,
        head_dim=8,
        global_head_dim=16,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        num_kv_shared_layers=2,
        vocab_size_per_layer_input=VOCAB,
        hidden_size_per_layer_input=4,
        enable_moe_block=False,
    )


FAMILIES = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen2-window": _qwen2_window,
    "qwen3": _qwen3,
    "qwen3.5": _qwen3_5,
    "gemma4": _gemma4,
}


def _tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<eos>", "<answer>", "</answer>", "<think>", "</think>", "<turn>"]
    vocab = {word: i for i, word in enumerate([*words, *(f"w{i}" for i in range(len(words), VOCAB))])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # <think> and </think> are special here, <answer> and </answer> are not: both must stay readable.
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<eos>",
        pad_token="<eos>",
        additional_special_tokens=["<think>", "</think>", "<turn>"],
    )


@pytest.fixture(scope="session")
def make_base() -> Callable[..., Base]:
    """Build a tiny random base of a family, the same one each time."""

    def make(family: str = "llama", stop_ids: tuple[int, ...] = (EOS,)) -> Base:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            model = AutoModelForCausalLM.from_config(FAMILIES[family](), dtype=torch.float32)
            for name, parameter in model.named_parameters():
                if "norm" in name:  # ones would hide a norm that is left out
                    torch.nn.init.uniform_(parameter, 0.5, 1.5)
        base = wrap_model(model, _tokenizer(), identity=BaseIdentity(f"tiny-{family}", family))
        return Base(
            model=base.model,
            tokenizer=base.tokenizer,
            identity=base.identity,
            stop_ids=stop_ids,
            context_length=base.context_length,
            device=base.device,
            dtype=base.dtype,
        )

    return make


@pytest.fixture(scope="session")
def make_pair(make_base: Callable[..., Base]) -> Callable[..., AdapterPair]:
    """Build a pair whose adapters both differ clearly from the base."""

    def make(family: str = "llama") -> AdapterPair:
        pair = AdapterPair.create(make_base(family), AdapterSettings(rank=4, alpha=8.0, init="standard"), seed=0)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for name in pair.names:
                for parameter in pair.parameters(name):
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
        return pair

    return make


@pytest.fixture(scope="session")
def unmerged(make_base: Callable[..., Base]) -> Callable[..., torch.nn.Module]:
    """The same base with an adapter of a pair applied by PEFT itself, unmerged."""

    def make(pair: AdapterPair, name: str | None) -> torch.nn.Module:
        model = make_base(pair.base.identity.sha256).model
        if name is None:
            return model
        config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peft_model = PeftModel(model, config)
            outcome = set_peft_model_state_dict(peft_model, pair.state(name))
        assert not outcome.unexpected_keys
        return peft_model.eval()

    return make


@pytest.fixture(scope="session")
def plain_logprobs() -> Callable[..., list[float]]:
    """Logprobs of a completion by one forward pass over all of it, without a cache."""

    def compute(model: torch.nn.Module, request: Request, completion: Completion) -> list[float]:
        ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[0, len(request.prompt_ids) - 1 : -1].float()
        logprobs = torch.log_softmax(logits / request.temperature, dim=-1)
        return logprobs[torch.arange(completion.num_tokens), list(completion.token_ids)].tolist()

    return compute


@pytest.fixture(scope="session")
def mixed_requests() -> Callable[..., list[Request]]:
    """Requests of several prompts, lengths, caps and temperatures, several rows a prompt."""

    def make(adapters: tuple[str | None, ...] = (None,), *, rows: int = 3) -> list[Request]:
        prompts = [
            tuple(2 + (7 * p + 3 * i) % (VOCAB - 2) for i in range(length)) for p, length in enumerate((4, 9, 1, 9, 17))
        ]
        return [
            Request(
                prompt_ids=prompt,
                adapter=adapter,
                max_tokens=(14, 3, 9)[row % 3],
                seed=1000 * number + row,
                temperature=(1.0, 0.7, 1.5)[(row + number) % 3],
            )
            for row in range(rows)
            for number, prompt in enumerate(prompts)
            for adapter in adapters
        ]

    return make


@pytest.fixture(scope="session")
def fake_vllm() -> ModuleType:
    """The stand-in for vLLM beside this file."""
    spec = importlib.util.spec_from_file_location("fake_vllm", Path(__file__).with_name("fake_vllm.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_server(make_base, fake_vllm, monkeypatch) -> Callable[..., VllmServer]:
    """Build a server over the stand-in; the base's family must be one whose layers are fused in the usual way."""

    def make(family: str = "llama", *, context_length: int = 128, **options) -> VllmServer:
        fake_vllm.install(monkeypatch)
        engine = fake_vllm.FakeEngine(make_base(family).model, make_base(family).model, **options)
        server_options = ServerOptions(Path("folder"), options.get("max_rows", 4), context_length, 1 << 20, 0.5)
        return VllmServer(engine, server_options, stop_ids=(EOS,))

    return make
