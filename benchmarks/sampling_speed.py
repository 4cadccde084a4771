"""Sampled tokens a second of the torch engine, beside transformers' own `generate` on the same batch in the same run.

    python benchmarks/sampling_speed.py                 the shape of the embedded base, one CPU thread
    python benchmarks/sampling_speed.py --model FOLDER  any local model
    python benchmarks/sampling_speed.py --device cuda --layers 28 --width 1024 --vocab 151936 --dtype bfloat16

Both sample at temperature 1 from the same weights. `generate` gets left-padded prompts, decodes all rows to the longest, and
keeps no logprobs; only tokens up to the end token count. Medians of interleaved repeats, by wall clock and by CPU time: on a
shared machine only the second says something.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.models.llama import LlamaConfig

from agon.config import ModelSettings
from agon.model.base import Base, BaseIdentity, load_base, wrap_model
from agon.records import Request
from agon.rollout.torch_engine import TorchEngine

END = 2


class Timing(NamedTuple):
    tokens: int
    wall_s: float
    cpu_s: float


def main() -> None:
    options = parse()
    torch.set_num_threads(options.threads)
    base = (
        load_base(ModelSettings(base=options.model, device=options.device)) if options.model else random_base(options)
    )
    requests = make_requests(base, options)
    engine = TorchEngine(base, max_rows=options.max_rows)
    runs = {"agon": lambda: sample(engine, requests), "generate": lambda: generate(base, requests)}
    timings: dict[str, list[Timing]] = {name: [] for name in runs}
    for repeat in range(options.repeats + 1):
        for name, run in runs.items():
            timing = timed(run, base.device)
            if repeat:  # the first is a warm-up
                timings[name].append(timing)
    report(timings, base, options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder, a Hub name or `quickstart`; without it a random Llama")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8, help="rows a prompt")
    parser.add_argument("--new-tokens", type=int, default=60, help="cap on sampled tokens")
    parser.add_argument("--max-rows", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


def random_base(options: argparse.Namespace) -> Base:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=options.vocab,
        hidden_size=options.width,
        intermediate_size=options.width * 11 // 4,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=END,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options.dtype)).to(options.device)
    return wrap_model(model, None, identity=BaseIdentity("random", "none"))


def make_requests(base: Base, options: argparse.Namespace) -> list[Request]:
    rng = np.random.default_rng(0)
    vocab = base.model.get_input_embeddings().weight.shape[0]
    allowed = np.setdiff1d(np.arange(vocab), base.stop_ids)
    prompts = [tuple(rng.choice(allowed, rng.integers(15, 41)).tolist()) for _ in range(options.prompts)]
    return [
        Request(prompt, None, options.new_tokens, seed=options.samples * p + s)
        for p, prompt in enumerate(prompts)
        for s in range(options.samples)
    ]


def sample(engine: TorchEngine, requests: list[Request]) -> int:
    return sum(completion.num_tokens for completion in engine.generate(requests))


def generate(base: Base, requests: list[Request]) -> int:
    longest = max(len(request.prompt_ids) for request in requests)
    pads = [longest - len(request.prompt_ids) for request in requests]
    ids = torch.tensor([(0,) * pad + request.prompt_ids for pad, request in zip(pads, requests, strict=True)])
    mask = torch.tensor([(0,) * pad + (1,) * (longest - pad) for pad in pads])
    tokens = base.model.generate(
        ids.to(base.device),
        attention_mask=mask.to(base.device),
        do_sample=True,
        top_k=0,
        max_new_tokens=requests[0].max_tokens,
        pad_token_id=base.stop_ids[0],
    )[:, longest:]
    has_ended = torch.isin(tokens, torch.tensor(base.stop_ids, device=tokens.device)).cumsum(1)
    return int(((has_ended == 0).sum(1) + (has_ended > 0).any(1)).sum())


def timed(run: Callable[[], int], device: torch.device) -> Timing:
    if device.type == "cuda":
        torch.cuda.synchronize()
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return Timing(tokens, time.perf_counter() - wall, time.process_time() - cpu)


def report(timings: dict[str, list[Timing]], base: Base, options: argparse.Namespace) -> None:
    rows = options.prompts * options.samples
    print(
        f"{base.num_parameters:,} parameters, {rows} rows, up to {options.new_tokens} new tokens, {options.threads} thread(s)"
    )
    speeds: dict[str, tuple[float, float]] = {}
    for name, runs in timings.items():
        wall, cpu = (
            statistics.median(run.tokens / seconds for run, seconds in zip(runs, times, strict=True))
            for times in ([run.wall_s for run in runs], [run.cpu_s for run in runs])
        )
        speeds[name] = (wall, cpu)
        print(f"{name:>9}: {wall:>9,.0f} tokens/s   {cpu:>9,.0f} tokens per CPU second")
    ratios = [mine / theirs for mine, theirs in zip(speeds["agon"], speeds["generate"], strict=True)]
    print(f"    ratio: {ratios[0]:.2f} by wall clock, {ratios[1]:.2f} by CPU time")


if __name__ == "__main__":
    main()
