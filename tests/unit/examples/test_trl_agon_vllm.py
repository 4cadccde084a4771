"""The example with TRL's vLLM path, on a CPU: all of TRL's own code, over a model that answers where vLLM would."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import trl.generation.vllm_generation as trl_vllm
from transformers import AutoModelForCausalLM

from agon.cli.common import settings_of

SCRIPT = Path(__file__).parents[3] / "examples" / "trl_agon.py"
SMALL = ["train.steps=2", "train.problems_per_step=2", "train.group_size=4", "train.warmup_share=0.0"]


class TorchInPlaceOfVllm:
    """What TRL uses of `vllm.LLM`: weights are loaded by name, tokens come with their logprobs."""

    def __init__(self, model, **options):
        self.model = AutoModelForCausalLM.from_pretrained(model)
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self.load))
        driver = SimpleNamespace(model_runner=runner)
        self.llm_engine = SimpleNamespace(model_executor=SimpleNamespace(driver_worker=driver))

    @torch.no_grad()
    def load(self, weights):
        for name, tensor in weights:
            self.model.get_parameter(name).copy_(tensor)

    def reset_prefix_cache(self):
        """There is none."""

    @torch.no_grad()
    def generate(self, prompts, sampling_params, use_tqdm):
        return [self.one(prompt["prompt_token_ids"], sampling_params) for prompt in prompts]

    def one(self, prompt_ids, params):
        ids, logprobs = list(prompt_ids), []
        while len(logprobs) < params.max_tokens and ids[-1] != self.model.config.eos_token_id:
            scores = (self.model(torch.tensor([ids])).logits[0, -1] / params.temperature).log_softmax(-1)
            ids.append(int(torch.multinomial(scores.exp(), 1)))
            logprobs.append({ids[-1]: SimpleNamespace(rank=1, logprob=float(scores[ids[-1]]))})
        sampled = SimpleNamespace(token_ids=ids[len(prompt_ids) :], logprobs=logprobs)
        return SimpleNamespace(prompt_token_ids=prompt_ids, outputs=[sampled])


@pytest.mark.parametrize("is_stale", [False, True])
def test_the_engine_samples_from_the_adapter_whose_turn_it_is(is_stale, tmp_path, monkeypatch):
    monkeypatch.setattr(trl_vllm, "LLM", TorchInPlaceOfVllm, raising=False)
    monkeypatch.setattr(trl_vllm, "SamplingParams", SimpleNamespace, raising=False)
    monkeypatch.setattr(trl_vllm, "is_vllm_available", lambda: True)
    if is_stale:
        monkeypatch.setattr(trl_vllm.VLLMGeneration, "sync_weights", lambda self: None)
    spec = importlib.util.spec_from_file_location("trl_agon", SCRIPT)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
        monkeypatch.delenv(name)  # TRL sets them: taken back when the test ends

    settings = settings_of("quickstart-agon", [*SMALL, "train.learning_rate=0.01"])
    trainer = example.train(settings, str(tmp_path), use_cpu=True, use_vllm=True, vllm_mode="colocate")

    gaps = [row["sampling/sampling_logp_difference/max"] for row in trainer.state.log_history if "reward" in row]
    assert len(gaps) == 4
    # Both adapters start without effect; from the third step on the engine has something to miss.
    assert max(gaps[:2]) < 1e-4
    assert (min(gaps[2:]) > 1e-2) if is_stale else (max(gaps[2:]) < 1e-4)
