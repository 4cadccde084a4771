"""Run folders with trained-looking adapters, made without training, and the tiny bases they stand on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from agon.config import AdapterSettings, ModelSettings, Settings
from agon.model.base import load_base
from agon.model.checkpoint import load_adapters, save_checkpoint
from agon.model.pair import AdapterPair
from agon.runs.evaluations import write_evaluation
from agon.runs.folder import RunFolder

EVALUATION = {
    "task": "countdown-lite",
    "split": "test",
    "protocol": "single",
    "players": {"drafters": ["A"], "challenger": None},
    "accuracy": 0.5,
    "n": 12,
    "samples": 1,
    "interval": {"low": 0.211, "high": 0.789, "level": 0.95, "kind": "clopper-pearson", "unit": "problem"},
}


def _tokenizer() -> PreTrainedTokenizerFast:
    words = {f"w{index}": index for index in range(40)} | {"</s>": 40, "<|im_end|>": 41}
    core = Tokenizer(WordLevel(words, unk_token="w0"))
    core.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    return fast


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return _tokenizer()


@pytest.fixture
def make_base(tmp_path: Path) -> Callable[..., Path]:
    """Write the folder of a tiny Llama; `save` may write another model into it."""

    def make(*, dtype: torch.dtype = torch.float32, model: Any = None, name: str = "base", **overrides: Any) -> Path:
        folder = tmp_path / name
        if model is None:
            sizes = {"hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4}
            config = LlamaConfig(
                **{
                    "vocab_size": 48,
                    "num_key_value_heads": 2,
                    "max_position_embeddings": 4096,
                    "eos_token_id": 2,
                    "initializer_range": 0.2,
                    **sizes,
                    **overrides,
                }
            )
            with torch.random.fork_rng():
                torch.manual_seed(0)
                model = LlamaForCausalLM(config).to(dtype)
            model.generation_config = GenerationConfig(eos_token_id=2, do_sample=True, temperature=0.6)
        model.save_pretrained(folder)
        _tokenizer().save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run folder on a base whose adapters hold numbers large enough to change what the model says."""

    def make(
        base: Path | str,
        *,
        name: str = "run",
        steps: tuple[int, ...] = (2,),
        scale: float = 0.05,
        is_finished: bool = True,
        **tables: dict[str, Any],
    ) -> Path:
        settings = Settings.model_validate(
            {
                **tables,
                "model": {"base": str(base), "device": "cpu", **tables.get("model", {})},
                "adapter": {"rank": 4, "alpha": 8.0, "init": "standard", **tables.get("adapter", {})},
                "train": {"steps": steps[-1], "seed": 5, **tables.get("train", {})},
            }
        )
        path = tmp_path / name
        pair = AdapterPair.create(load_base(settings.model), settings.adapter, seed=0)
        generator = torch.Generator().manual_seed(1)
        with RunFolder.create(path, settings=settings.model_dump(mode="json")) as run:
            for step in steps:
                for adapter in ("A", "B"):
                    with torch.no_grad():
                        for parameter in pair.parameters(adapter):
                            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
                    pair.count_step(adapter)
                with run.checkpoint(step, is_last=is_finished and step == steps[-1]) as folder:
                    progress = {"completed_steps": step, "rollouts_generated": 64 * step}
                    save_checkpoint(folder, pair, optimizers={}, progress=progress)
        return path

    return make


@pytest.fixture
def evaluate() -> Callable[..., None]:
    """File a result in a run folder."""

    def write(run: Path, label: str, **changes: Any) -> None:
        write_evaluation(run, label, {**EVALUATION, **changes})

    return write


@pytest.fixture
def logits() -> Callable[[Any], torch.Tensor]:
    @torch.no_grad()
    def compute(model: Any) -> torch.Tensor:
        return model(torch.tensor([[5, 9, 2, 11, 30, 7, 1, 22]]), use_cache=False).logits[0].float()

    return compute


@pytest.fixture
def own_logits(logits: Callable[[Any], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """What a run's own adapter says, computed as a run does it."""

    def compute(base: Path, run: Path, name: str, **adapter: Any) -> torch.Tensor:
        settings = AdapterSettings(**{"rank": 4, "alpha": 8.0, "init": "standard", **adapter})
        pair = AdapterPair.create(load_base(ModelSettings(base=str(base), device="cpu")), settings, seed=3)
        load_adapters(pair, run / "checkpoints" / "step-000002")
        with pair.sampling(name) as model:
            return logits(model)

    return compute
