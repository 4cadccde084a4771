"""Sampling on one GPU: vLLM as it comes, and agon's engine over it with each way to serve two adapters, in one run.

    python benchmarks/generation_gpu.py                          Qwen3-0.6B's shape with random weights, about 10 minutes
    python benchmarks/generation_gpu.py --parts multi-lora       some of the parts: stock, bare, swapped, multi-lora
    python benchmarks/generation_gpu.py --parts stock swapped --new-tokens --swaps 10       the stages of a step alone

Each part is a process of its own. Printed: start-up, tokens a second of one call with 512 and with 1,024 new tokens, of drafts
followed by challenges (all drafts first, or challenges joining as drafts end; equal and lognormal lengths), of eight times as many
requests as rows (let in by groups, or all handed to vLLM at once, which lets in one as another ends), adapter updates, and how far
engine and learner logprobs are apart. Agon's engine always returns logprobs; stock vLLM is not asked for them.
Lengths are set by each request's cap: random weights do not stop. Rates are medians of `--repeats` calls after one that warms up; what has
lognormal lengths, the queue too, is sampled `--lognormal-repeats` times, after what has equal ones. `--new-tokens` without a number leaves out calls and queue.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTS = ("stock", "bare", "swapped", "multi-lora")
CHALLENGE_PROMPT = 384
# Requests in the queue for each row.
QUEUED = 8
START = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--model", type=Path, help="a model folder; without it random weights")
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, nargs="*", default=[512, 1024])
    parser.add_argument("--swaps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lognormal-repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("generation_gpu.py needs vLLM and a CUDA device: nothing measured")
        return
    if options.one:
        print("RESULT " + json.dumps(measure(options.one, options)), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        options.model = options.model or random_model(Path(folder))
        results: dict[str, dict[str, Any]] = {}
        for part in options.parts:
            results[part] = in_process(part, options)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


def in_process(part: str, options: argparse.Namespace) -> dict[str, Any]:
    flags = ["--one", part, "--model", str(options.model), "--prompts", str(options.prompts)]
    flags += ["--prompt-tokens", str(options.prompt_tokens), "--swaps", str(options.swaps)]
    flags += ["--repeats", str(options.repeats), "--lognormal-repeats", str(options.lognormal_repeats)]
    flags += ["--new-tokens", *map(str, options.new_tokens)]
    done = subprocess.run([sys.executable, __file__, *flags], stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    print(done.stdout[-3000:], file=sys.stderr)
    return {"failed": done.returncode}


def random_model(folder: Path, **smaller: int) -> Path:
    """Write Qwen3-0.6B's shape with random weights; `smaller` are sizes to have instead of its own."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.qwen3 import Qwen3Config

    sizes = {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    config = Qwen3Config(
        vocab_size=151_936,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
        initializer_range=0.04,
        bos_token_id=151_643,
        eos_token_id=151_645,
        **(sizes | smaller),
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


def measure(part: str, options: argparse.Namespace) -> dict[str, Any]:
    return stock(options) if part == "stock" else ours(part, options)


def prompts(options: argparse.Namespace, *, count: int, length: int, seed: int) -> list[tuple[int, ...]]:
    import numpy as np

    drawn = np.random.default_rng(seed).integers(0, vocab_size(options), (count, length))
    return [tuple(row) for row in drawn.tolist()]


def stock(options: argparse.Namespace) -> dict[str, Any]:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    from vllm import LLM, SamplingParams

    llm = LLM(
        str(options.model),
        skip_tokenizer_init=True,
        gpu_memory_utilization=0.5,
        max_num_seqs=options.prompts,
        max_model_len=8192,
        compilation_config={"cudagraph_capture_sizes": [1, 8, 64, 256, 512]},
    )
    result: dict[str, Any] = {"start_s": time.perf_counter() - START}
    rows = [
        {"prompt_token_ids": list(row)}
        for row in prompts(options, count=options.prompts, length=options.prompt_tokens, seed=0)
    ]
    for new in options.new_tokens:
        params = [SamplingParams(temperature=1.0, max_tokens=new, seed=i, detokenize=False) for i in range(len(rows))]
        result[f"call_{new}"] = rate(lambda p=params: stock_tokens(llm.generate(rows, p, use_tqdm=False)), options)
    half = prompts(options, count=options.prompts, length=options.prompt_tokens, seed=0)[: options.prompts // 2]
    for lengths in ("equal", "lognormal"):
        caps, longer = stages(half, lengths, vocab_size=vocab_size(options))
        asked = (half, [(*row, *more) for row, more in zip(half, longer, strict=True)])

        def run(caps: Any = caps, asked: Any = asked) -> int:
            sampled = 0
            llm.reset_prefix_cache()  # what an earlier call left would spare this one its prompts
            for number, part in enumerate(asked):
                own = caps[number * len(half) : (number + 1) * len(half)]
                params = [
                    SamplingParams(temperature=1.0, max_tokens=cap, ignore_eos=True, seed=i, detokenize=False)
                    for i, cap in enumerate(own)
                ]
                done = llm.generate([{"prompt_token_ids": list(row)} for row in part], params, use_tqdm=False)
                sampled += stock_tokens(done)
            return sampled

        result[f"stages_{lengths}"] = rate_of_stages(run, lengths, options)
    return result


def stages(rows: list[tuple[int, ...]], lengths: str, *, vocab_size: int) -> tuple[list[int], list[list[int]]]:
    """Return the lengths of drafts and then of challenges, and what a challenge's prompt has after its draft's."""
    import numpy as np

    rng = np.random.default_rng(5)
    caps = np.full(2 * len(rows), 512)
    if lengths == "lognormal":  # mean about 1,000, sigma 0.6
        caps = np.clip(rng.lognormal(np.log(1000) - 0.18, 0.6, 2 * len(rows)), 16, 4096).astype(int)
    longer = rng.integers(0, vocab_size, (len(rows), CHALLENGE_PROMPT - len(rows[0]))).tolist()
    return caps.tolist(), longer


def queued_caps(num: int) -> list[int]:
    """Return lengths like those of answers to GSM8K: lognormal, mean about 215, at most 512."""
    import numpy as np

    return np.clip(np.random.default_rng(6).lognormal(np.log(215) - 0.125, 0.5, num), 16, 512).astype(int).tolist()


def vocab_size(options: argparse.Namespace) -> int:
    return json.loads((options.model / "config.json").read_text())["vocab_size"]


def stock_tokens(outputs: list[Any]) -> int:
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def rate(run: Callable[[], int], options: argparse.Namespace) -> list[float]:
    """Tokens a second of each repeat, after one that is not counted."""
    timed(run)
    return [timed(run) for _ in range(options.repeats)]


def rate_of_stages(run: Callable[[], int], lengths: str, options: argparse.Namespace) -> list[float]:
    """The same; for lognormal lengths, which take long, those of equal length have been the warm-up."""
    return rate(run, options) if lengths == "equal" else [timed(run) for _ in range(options.lognormal_repeats)]


def timed(run: Callable[[], int]) -> float:
    import torch

    torch.cuda.synchronize()
    started = time.perf_counter()
    tokens = run()
    torch.cuda.synchronize()
    return tokens / (time.perf_counter() - started)


def ours(part: str, options: argparse.Namespace) -> dict[str, Any]:
    from generation_gpu_parts import Part

    one = Part(part, options.model, max_rows=options.prompts)
    result: dict[str, Any] = {"start_s": time.perf_counter() - START, **one.started}
    rows = prompts(options, count=options.prompts, length=options.prompt_tokens, seed=0)
    for new in options.new_tokens:
        result[f"call_{new}"] = rate(lambda n=new: one.call(rows, n, ("A",)), options)
    if part == "multi-lora" and options.new_tokens:
        result["two_mixed"] = rate(lambda: one.call(rows, options.new_tokens[0], ("A", "B")), options)
    if options.new_tokens:
        result |= rates_of_queue(one, options)
    if part != "bare":
        half = rows[: len(rows) // 2]
        for lengths in ("equal", "lognormal"):
            result[f"stages_{lengths}"] = rate_of_stages(
                lambda k=lengths: one.stages(half, k, is_growing=False), lengths, options
            )
            if part == "multi-lora":
                result[f"growing_{lengths}"] = rate_of_stages(
                    lambda k=lengths: one.stages(half, k, is_growing=True), lengths, options
                )
        result |= one.updates(options.swaps)
    result |= one.parity(rows[:64])
    one.close()
    return result


def rates_of_queue(one: Any, options: argparse.Namespace) -> dict[str, list[float]]:
    """Tokens a second of more requests than rows: let in by groups, and all handed to vLLM at once. The calls before were the warm-up."""
    waiting = prompts(options, count=QUEUED * options.prompts, length=options.prompt_tokens, seed=1)
    caps = queued_caps(len(waiting))
    ways = {"queued_in_groups": True, "queued_at_once": False}
    return {
        name: rate_of_stages(lambda g=in_groups: one.queue(waiting, caps, in_groups=g), "lognormal", options)
        for name, in_groups in ways.items()
    }


def show(results: dict[str, dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for result in results.values() for name in result))
    print(f"{'':<34}" + "".join(f"{part:>14}" for part in results))
    for name in names:
        cells = [result.get(name) for result in results.values()]
        print(f"{name:<34}" + "".join(f"{cell(value):>14}" for value in cells))


def cell(value: Any) -> str:
    if isinstance(value, list):
        value = statistics.median(value) if value else None
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    main()
