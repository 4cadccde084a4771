"""What the server costs: cascades played by `match.play` beside the same ones asked of the server over HTTP, one engine for both.

    python benchmarks/serve_gpu.py --tokenizer FOLDER            Qwen3-0.6B's shape with random weights; a GPU with vLLM
    python benchmarks/serve_gpu.py --model FOLDER                a model of yours, whose answers may end before their cap
    python benchmarks/serve_gpu.py --tokenizer FOLDER --tiny     anywhere, with the torch engine: to try the script itself

All cascades are asked for at once: a draft and a challenge of `--new-tokens` each (random weights do not stop), the problem about 100
tokens, what crosses 256. Layers: `direct` is one call of `match.play`, whose engine lets challenges join; `stepped` drives the stepping
engine without an event loop; `jobs` is the server's core without HTTP; `server` the whole of it, whole answers; `stream` and
`stream-draft` the same as streams, without and with the draft. Clients are a process of their own. Rounds take turns over the layers, after
short ones that warm up; printed are medians. `added` is a request's time less that of its stages: with all at once mostly the wait for the
others' prompts to be written. Rounds differ by a tenth and more where the engine waits for the host, so compare those side by side.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from generation_gpu import random_model

LAYERS = ("direct", "stepped", "jobs", "server", "stream", "stream-draft")
START = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model folder; without it random weights")
    parser.add_argument(
        "--tokenizer", type=Path, help="a folder with the tokenizer for random weights, of at most 151,936 tokens"
    )
    parser.add_argument("--tiny", action="store_true", help="two small layers instead of Qwen3-0.6B's shape")
    parser.add_argument("--problems", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--new-tokens", type=int, default=512)
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--warm-up", type=int, default=32, help="new tokens of the rounds that are not counted; 0 for none"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after so many")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args()
    if importlib.util.find_spec("vllm") is None and not options.tiny:
        print("serve_gpu.py needs vLLM and a CUDA device: nothing measured")
        return
    if options.model is None and options.tokenizer is None:
        print("serve_gpu.py needs a tokenizer for its random weights, --tokenizer, or a --model: nothing measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(options.model or made_model(Path(folder), options), options)


def made_model(folder: Path, options: argparse.Namespace) -> Path:
    random_model(
        folder, **({"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2} if options.tiny else {})
    )
    for file in options.tokenizer.iterdir():
        if file.suffix in (".json", ".jinja", ".txt") and file.name not in ("config.json", "generation_config.json"):
            shutil.copy(file, folder)
    return folder


def measure(folder: Path, options: argparse.Namespace) -> None:
    from serve_gpu_pair_parts import Pair
    from serve_gpu_parts import layer_named

    from agon.serve.server import log_to_stderr

    log_to_stderr()
    pair = Pair(folder, max_rows=max(options.problems), new_tokens=options.new_tokens)
    results: dict[str, Any] = {"start_s": time.perf_counter() - START, "rounds": []}
    print(f"started in {results['start_s']:.0f} s", flush=True)
    if options.warm_up:
        with pair.shorter(options.warm_up):
            for layer in ("direct", "stream"):
                layer_named(pair, layer)(options.problems[0])
        print(f"warm after {time.perf_counter() - START:.0f} s", flush=True)
    for count in options.problems:
        for repeat in range(options.repeats):
            for layer in options.layers:
                if time.perf_counter() - START > options.seconds:
                    continue
                pair.forget()
                found = {"problems": count, "repeat": repeat, "layer": layer, **layer_named(pair, layer)(count)}
                results["rounds"].append(found)
                print(json.dumps({name: rounded(value) for name, value in found.items()}), flush=True)
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1) + "\n")
    pair.close()
    show(results["rounds"])


def show(rounds: list[dict[str, Any]]) -> None:
    print(
        f"{'problems':>8} {'layer':<13} {'n':>2} {'tokens/s':>9} {'of direct':>9} {'median s':>9} {'p99 s':>7} {'added':>7} {'p99':>7}"
    )
    for count in dict.fromkeys(found["problems"] for found in rounds):
        base = None
        for layer in dict.fromkeys(found["layer"] for found in rounds if found["problems"] == count):
            same = [found for found in rounds if (found["problems"], found["layer"]) == (count, layer)]
            rate = statistics.median(found["rate"] for found in same)
            base = rate if layer == "direct" else base
            ratio = "" if base is None else f"{rate / base:.3f}"
            cells = [middle(same, name) for name in ("median_s", "p99_s", "added_median_s", "added_p99_s")]
            print(
                f"{count:>8} {layer:<13} {len(same):>2} {rate:>9,.0f} {ratio:>9} {cells[0]:>9} {cells[1]:>7} {cells[2]:>7} {cells[3]:>7}"
            )


def middle(rounds: list[dict[str, Any]], name: str) -> str:
    values = [found[name] for found in rounds if name in found]
    return f"{statistics.median(values):.3f}" if values else ""


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
