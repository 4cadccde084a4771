"""Real tokens per second of a whole update on one GPU, beside the same batch on transformers + PEFT, padded.

    python benchmarks/learner_gpu.py [--variants NAME ...] [--repeats 3] [--profile] [--out FILE.json]

The base has Qwen3-0.6B's exact shape and random weights in bfloat16; LoRA of rank 16 on all linear layers. The batch is 128
sequences with lognormal lengths (mean about 1,140, longest 2,777), all with an advantage. Counted is every real token that enters the
model, prompts included, padding left out. An agon step is a whole `Learner.update`: laying out the batch, forward, backward,
gradient norm, optimiser; the baseline's is forward and
backward alone, over the batch's first 16 sequences (the longest among them). `--tiny` runs a toy shape anywhere, to try the script itself.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen3Config, Qwen3ForCausalLM

from agon.config import AdapterSettings, TrainSettings
from agon.learner.learner import Learner
from agon.learner.logprobs import output_head, token_logprobs
from agon.learner.packing import Sample
from agon.model.base import Base, BaseIdentity, wrap_model
from agon.model.pair import AdapterPair

SHAPE = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": True,
}
TINY = SHAPE | {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16}
NUM_SEQUENCES, MEAN, SIGMA, LONGEST, PROMPT = 128, 1140, 0.45, 2777, 128
BASELINE = "padded-peft"
BASELINE_SEQUENCES = 16

VARIANTS: dict[str, dict[str, Any]] = {
    "packed-32k": {"compile": "off", "gradient_checkpointing": False},
    "packed-32k-recomputed": {"compile": "off", "gradient_checkpointing": True},
    "compiled-8k": {"tokens_per_microbatch": 8192},
    "compiled-16k": {"tokens_per_microbatch": 16_384},
    "compiled-32k": {},
    "compiled-64k": {"tokens_per_microbatch": 65_536},
    "compiled-32k-recomputed": {"gradient_checkpointing": True},
    "flash-32k": {"attention": "flash4"},
    "flash-64k": {"attention": "flash4", "tokens_per_microbatch": 65_536},
}


@dataclass(frozen=True, slots=True)
class Result:
    """Median of several steps, and the memory at its highest."""

    name: str
    tokens_per_second: float
    seconds: list[float]
    peak_gib: float
    compile_seconds: float
    bytes_per_token: int | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", default=[BASELINE, *VARIANTS], choices=[BASELINE, *VARIANTS])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--logprob-chunk", type=int, default=4096)
    parser.add_argument("--profile", action="store_true", help="print where the last variant's time goes")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    if not (torch.cuda.is_available() or arguments.tiny):
        print("learner_gpu: no CUDA device here, nothing to measure (--tiny runs a toy shape)")
        return
    samples = make_samples(16 if arguments.tiny else NUM_SEQUENCES, 40 if arguments.tiny else MEAN)
    results: list[Result] = []
    for name in arguments.variants:
        results.append(measure(name, samples, arguments))
        print(line(results[-1], results), flush=True)
    num_tokens = sum(map(input_length, samples))
    print(
        f"\n{num_tokens:,} tokens in {len(samples)} sequences, longest {max(map(input_length, samples))}; {machine()}"
    )
    for result in results:
        print(line(result, results))
    if arguments.out is not None:
        rows = [{field: getattr(result, field) for field in Result.__slots__} for result in results]
        report = {"machine": machine(), "num_tokens": num_tokens, "results": rows}
        arguments.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def line(result: Result, results: list[Result]) -> str:
    baseline = next((other.tokens_per_second for other in results if other.name == BASELINE), None)
    ratio = f"{result.tokens_per_second / baseline:6.1f}x" if baseline else "      -"
    return (
        f"{result.name:26} {result.tokens_per_second:9,.0f} tokens/s {ratio}  peak {result.peak_gib:6.1f} GiB  "
        f"compile {result.compile_seconds:5.1f} s  activations {(result.bytes_per_token or 0) / 2**10:6.0f} KiB/token"
    )


def machine() -> str:
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{card}, torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"


def make_samples(count: int, mean: float) -> list[Sample]:
    """Draw lengths, and tokens that a random model finds as likely as any."""
    rng = np.random.default_rng(0)
    lengths = (
        rng.lognormal(np.log(mean) - SIGMA**2 / 2, SIGMA, count).clip(mean / 10, LONGEST * mean / MEAN).astype(int)
    )
    lengths[0] = int(LONGEST * mean / MEAN)
    prompt_length = int(PROMPT * mean / MEAN)
    samples: list[Sample] = []
    for index, length in enumerate(lengths):
        ids = rng.integers(0, TINY["vocab_size"], max(length + 1, prompt_length + 2)).tolist()
        completion = tuple(ids[prompt_length:])
        samples.append(
            Sample(tuple(ids[:prompt_length]), completion, (-12.0,) * len(completion), 1.0 - 2.0 * (index % 2))
        )
    return samples


def input_length(sample: Sample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids) - 1


def make_base(is_tiny: bool) -> Base:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with device:
        model = Qwen3ForCausalLM(Qwen3Config(**(TINY if is_tiny else SHAPE), eos_token_id=2)).to(torch.bfloat16)
    return wrap_model(model, None, identity=BaseIdentity("random", "0"))


def measure(name: str, samples: list[Sample], arguments: argparse.Namespace) -> Result:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    learner: Learner | None = None
    if name == BASELINE:
        # A part, with the longest sequence in it, is enough of a path that takes half a minute for the whole.
        samples = samples[:BASELINE_SEQUENCES]
        step = padded_step(samples, arguments)
    else:
        learner = make_learner(VARIANTS[name], arguments)
        step = agon_step(learner)
    step(samples[:8] if name == BASELINE else samples)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds = [timed(lambda: step(samples)) for _ in range(1 if name == BASELINE else arguments.repeats)]
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    if arguments.profile and name == arguments.variants[-1]:
        print_profile(lambda: step(samples))
    return Result(
        name=name,
        tokens_per_second=sum(map(input_length, samples)) / statistics.median(seconds),
        seconds=seconds,
        peak_gib=peak / 2**30,
        compile_seconds=learner.runner.compile_seconds if learner else 0.0,
        bytes_per_token=learner.runner.bytes_per_token if learner else None,
    )


def timed(step: Callable[[], object]) -> float:
    synchronize()
    started = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - started


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_learner(changes: dict[str, Any], arguments: argparse.Namespace) -> Learner:
    # Random adapters: with a zero matrix half of the gradients would be zero.
    pair = AdapterPair.create(make_base(arguments.tiny), AdapterSettings(rank=16, init="standard"), seed=0)
    with torch.no_grad():
        for parameter in pair.parameters("A"):
            parameter.normal_(std=0.01)
    settings = TrainSettings(
        **{
            "attention": "torch",
            "tokens_per_microbatch": 32_768,
            "logprob_chunk": arguments.logprob_chunk,
            "max_logprob_gap": 100.0,
            "learning_rate": 1e-6,
            **changes,
        }
    )
    return Learner(pair, settings, temperature=1.0)


def agon_step(learner: Learner) -> Callable[[list[Sample]], object]:
    return lambda batch: learner.update("A", batch, step=0, total_steps=100)


def padded_step(samples: list[Sample], arguments: argparse.Namespace) -> Callable[[list[Sample]], None]:
    """The frameworks' default: every row padded to the batch's longest, 8 rows at a time, layers recomputed, adapters in float32."""
    base = make_base(arguments.tiny)
    model: Any = get_peft_model(base.model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    head, longest = output_head(base.model), max(map(input_length, samples)) + 1

    def step(batch: list[Sample]) -> None:
        num_tokens = sum(len(sample.completion_ids) for sample in batch)
        for start in range(0, len(batch), 8):
            part = batch[start : start + 8]
            ids = torch.zeros(len(part), longest, dtype=torch.long)
            gain, mask = torch.zeros(len(part), longest), torch.zeros(len(part), longest, dtype=torch.long)
            for row, sample in enumerate(part):
                whole = (*sample.prompt_ids, *sample.completion_ids)
                ids[row, : len(whole)], mask[row, : len(whole)] = torch.tensor(whole), 1
                gain[row, len(sample.prompt_ids) : len(whole)] = sample.advantage
            ids, gain, mask = (tensor.to(base.device) for tensor in (ids, gain, mask))
            decoder = base.model.get_decoder()
            hidden = (
                decoder(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[:, :-1].flatten(0, 1)
            )
            logprobs = token_logprobs(
                hidden, ids[:, 1:].flatten(), head, temperature=1.0, chunk=arguments.logprob_chunk
            ).logprobs
            (-((logprobs - logprobs.detach()).exp() * gain[:, 1:].flatten()).sum() / num_tokens).backward()
        model.zero_grad()

    return step


def print_profile(step: Callable[[], object]) -> None:
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with profile(activities=activities) as profiler:
        seconds = timed(step)
    events = [event for event in profiler.key_averages() if event.device_type.name == "CUDA"]
    events.sort(key=lambda event: -event.self_device_time_total)
    busy = sum(event.self_device_time_total for event in events) / 1e6
    print(f"profile: step {seconds:.3f} s, kernels {busy:.3f} s")
    times = torch._dynamo.utils.compile_times(repr="csv", aggregate=True)
    print(
        "compilation, seconds: "
        + ", ".join(f"{name} {float(spent):.1f}" for name, spent in zip(*times, strict=True) if float(spent) > 2.0)
    )
    for event in events[:32]:
        share = event.self_device_time_total / 1e6
        print(f"  {share * 1e3:8.1f} ms {share / busy:6.1%} {event.count:6}x  {event.key[:110]}")


if __name__ == "__main__":
    main()
