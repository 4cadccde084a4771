"""What it costs to sample step by step, and from two adapters in turn, beside the batch engine on the same requests.

    python benchmarks/stepping_speed.py                 the embedded base, one CPU thread
    python benchmarks/stepping_speed.py --model FOLDER --device cuda

CPU time a token, medians of interleaved repeats; with `--wall` by wall clock, for a GPU. Both engines decode as many rows at once, but
the batch engine takes one adapter after the other, so with two adapters its batches are as large and half as many.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from agon.config import AdapterSettings, ModelSettings
from agon.model.base import load_base
from agon.model.pair import AdapterPair
from agon.records import Request
from agon.rollout.torch_engine import TorchEngine
from agon.rollout.torch_stepping import TorchSteppingEngine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="quickstart", help="a model folder, a Hub name or `quickstart`")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--new-tokens", type=int, default=60, help="cap on sampled tokens")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--wall", action="store_true", help="wall clock instead of CPU time")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.perf_counter if options.wall else time.process_time
    pair = make_pair(options)
    for name in (*pair.names, None):
        print(f"entering {name or 'the base'}: {1e6 * switch_seconds(pair, name, clock):.0f} us", flush=True)
    for adapters in (("A",), ("A", "B")):
        for rows in options.rows:
            requests = [
                Request(tuple(range(5, 30)), adapters[i % len(adapters)], options.new_tokens, seed=i)
                for i in range(rows * len(adapters))
            ]
            compare(pair, requests, options.repeats, clock)


def make_pair(options: argparse.Namespace) -> AdapterPair:
    base = load_base(ModelSettings(base=options.model, device=options.device))
    pair = AdapterPair.create(base, AdapterSettings(), seed=0)
    with torch.no_grad():
        for name in pair.names:
            for site in pair.sites:
                site.up(name).normal_(std=0.02)
    return pair


def switch_seconds(pair: AdapterPair, name: str | None, clock: Callable[[], float], times: int = 500) -> float:
    enter, found = pair.prepare(name), list[float]()
    for _ in range(9):
        started = clock()
        for _ in range(times):
            with enter():
                pass
        found.append((clock() - started) / times)
    return statistics.median(found)


def compare(pair: AdapterPair, requests: list[Request], repeats: int, clock: Callable[[], float]) -> None:
    whole, stepping = TorchEngine(pair), TorchSteppingEngine(pair)
    runs = {"batch": lambda: batch(whole, requests), "step by step": lambda: step_by_step(stepping, requests)}
    found: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = clock()
            num_tokens = run()
            if repeat:  # the first is a warm-up
                found[name].append((clock() - started) / num_tokens)
    ratio = statistics.median(step / one for one, step in zip(*found.values(), strict=True))
    adapters = sorted({str(request.adapter) for request in requests})
    said = ", ".join(f"{name} {1e6 * statistics.median(seconds):.1f} us a token" for name, seconds in found.items())
    print(f"{len(requests)} requests of {' and '.join(adapters)}: {said}, ratio {ratio:.2f}", flush=True)


def batch(engine: TorchEngine, requests: list[Request]) -> int:
    return sum(completion.num_tokens for completion in engine.generate(requests))


def step_by_step(engine: TorchSteppingEngine, requests: list[Request]) -> int:
    for request in requests:
        engine.add(request)
    num_tokens = 0
    while engine.num_open:
        num_tokens += sum(len(progress.token_ids) for progress in engine.step())
    return num_tokens


if __name__ == "__main__":
    main()
