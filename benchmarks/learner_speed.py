"""Tokens per second the learner takes in on one CPU thread, beside the same step on transformers + PEFT, padded.

    python benchmarks/learner_speed.py [--repeats 12] [--tokens-per-microbatch 1024 2048 8192]

The model is of the embedded base's size (4 layers, width 64, 64 symbols, random weights); a step is 256 sequences of 20 prompt and
25 to 60 completion tokens, all with an advantage. Counted is every token that enters the model, prompts included. Both paths run in
turn in one process, and the best of the repeats is shown: on a shared machine the ratio is worth more than either number.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import platform
import random
import time
from collections.abc import Callable

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from agon.config import AdapterSettings, TrainSettings
from agon.learner.learner import Learner
from agon.learner.packing import Sample
from agon.model.base import Base, BaseIdentity, wrap_model
from agon.model.memory import keep_freed_memory
from agon.model.pair import AdapterPair

VOCABULARY, NUM_SEQUENCES, PROMPT = 64, 256, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--tokens-per-microbatch", type=int, nargs="+", default=[1024, 2048, 8192])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    samples = make_samples()
    num_tokens = sum(len(sample.prompt_ids) + len(sample.completion_ids) - 1 for sample in samples)
    paths = {f"agon, micro-batch {budget}": agon_step(samples, budget) for budget in arguments.tokens_per_microbatch}
    paths["transformers + PEFT, padded, batch 128"] = padded_step(samples, 128)
    best = dict.fromkeys(paths, float("inf"))
    for _ in range(arguments.repeats):
        for name, step in paths.items():
            started = time.perf_counter()
            step()
            best[name] = min(best[name], time.perf_counter() - started)
    print(
        f"torch {torch.__version__}, {platform.machine()}, one thread, {num_tokens} tokens in {len(samples)} sequences"
    )
    for name, seconds in best.items():
        print(f"{name:42} {num_tokens / seconds:8,.0f} tokens/s  {seconds * 1e3:7.1f} ms")


def make_samples() -> list[Sample]:
    rng = random.Random(0)
    samples: list[Sample] = []
    for index in range(NUM_SEQUENCES):
        prompt = tuple(rng.randrange(VOCABULARY) for _ in range(PROMPT))
        completion = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(25, 60)))
        samples.append(Sample(prompt, completion, (-4.1,) * len(completion), 1.0 if index % 2 else -1.0))
    return samples


def make_base() -> Base:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    return wrap_model(LlamaForCausalLM(config), None, identity=BaseIdentity("random", "0"))


def agon_step(samples: list[Sample], budget: int) -> Callable[[], object]:
    pair = AdapterPair.create(make_base(), AdapterSettings(), seed=0)
    settings = TrainSettings(tokens_per_microbatch=budget, max_logprob_gap=100.0)
    learner = Learner(pair, settings, temperature=1.0)
    return lambda: learner.update("A", samples, step=0, total_steps=100)


def padded_step(samples: list[Sample], rows: int) -> Callable[[], object]:
    model = get_peft_model(make_base().model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=5e-5)
    num_tokens = sum(len(sample.completion_ids) for sample in samples)

    def step() -> None:
        for start in range(0, len(samples), rows):
            part = samples[start : start + rows]
            length = max(len(sample.prompt_ids) + len(sample.completion_ids) for sample in part)
            ids = torch.zeros(len(part), length, dtype=torch.long)
            gain = torch.zeros(len(part), length)
            for row, sample in enumerate(part):
                whole = (*sample.prompt_ids, *sample.completion_ids)
                ids[row, : len(whole)] = torch.tensor(whole)
                gain[row, len(sample.prompt_ids) : len(whole)] = sample.advantage
            logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
            logprobs = logits.log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
            (-((logprobs - logprobs.detach()).exp() * gain[:, 1:]).sum() / num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()
