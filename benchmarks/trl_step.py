"""Seconds a whole step of Agon takes here, and on stock TRL: the same model, problems, rollouts and lengths, in one run.

    python benchmarks/trl_step.py                                     a GPU with vLLM and TRL; about 20 minutes
    python benchmarks/trl_step.py --lengths uniform --out step.json   a part; --out adds to what the file holds already
    python benchmarks/trl_step.py --tiny                              anywhere: a toy shape, to try the script itself

The base has Qwen3-0.6B's exact shape and random weights, bfloat16, LoRA of rank 16 on all linear layers. A step is 32 problems, 256 drafts
(prompts of 128 tokens) and 256 challenges (384), and an update of either adapter. `uniform`: 512 new tokens each; `lognormal`: mean 1,000,
sigma 0.6, at most 4,096. Lengths are forced on both sides row by row, since random weights do not stop; prompts and verdicts are made up
(half of each group right), so that neither side waits for a checker or lacks a signal. Ours is `agon.train.loop.train`, everything
that a run writes included; TRL's is the trainer of `examples/trl_agon.py`, two steps of it for one of Agon's: its loss and settings are stock but
for what Agon needs. Each side and kind of length is a process of its own: vLLM colocated, on a CPU transformers' `generate` for TRL and
the torch engine for ours. The step that warms up is not counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

SIDES, LENGTHS = ("ours", "trl"), ("uniform", "lognormal")
BARS = {"uniform": "0.40, and 13 s", "lognormal": "0.25"}


@dataclass(frozen=True, slots=True)
class Workload:
    """What both sides are asked for, as a function of problem, row and stage: drafts of step s are stage 2s, challenges 2s + 1."""

    lengths: str
    num_problems: int
    group_size: int
    prompt: int
    challenge_prompt: int
    mean: int
    cap: int
    vocabulary: int
    warm_cap: int | None = None

    @property
    def num_rows(self) -> int:
        return self.num_problems * self.group_size

    def new_tokens(self, stage: int) -> list[int]:
        cap = min(self.cap, self.warm_cap) if self.warm_cap and stage < 2 else self.cap
        if self.lengths == "uniform":
            return [cap] * self.num_rows
        draw = np.random.default_rng((1, stage)).lognormal(np.log(self.mean) - 0.6**2 / 2, 0.6, self.num_rows)
        return np.clip(draw, 2, cap).astype(int).tolist()

    def draft_prompt(self, problem: int) -> list[int]:
        return self._ids(self.prompt, 2, problem)

    def challenge_ids(self, problem: int, sample: int) -> list[int]:
        """A challenge's prompt: the problem's, and what stands for a summary."""
        return [*self.draft_prompt(problem), *self._ids(self.challenge_prompt - self.prompt, 3, problem, sample)]

    def _ids(self, count: int, *names: int) -> list[int]:
        return np.random.default_rng(names).integers(3, self.vocabulary, count).tolist()


def workload(lengths: str, *, is_tiny: bool) -> Workload:
    is_uniform = lengths == "uniform"
    if is_tiny:
        return Workload(lengths, 2, 4, 12, 36, mean=16, cap=16 if is_uniform else 64, vocabulary=2048)
    return Workload(lengths, 32, 8, 128, 384, mean=1000, cap=512 if is_uniform else 4096, vocabulary=151_936)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", choices=LENGTHS, default=LENGTHS)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--steps", type=int, default=3, help="steps that are counted, after one that warms up")
    parser.add_argument("--short-warm-up", action="store_true", help="at most 64 new tokens in the step that warms up")
    parser.add_argument("--attention", choices=("auto", "torch", "flash4"), default="auto", help="our train.attention")
    parser.add_argument("--trl-rows", type=int, default=8, help="TRL's per_device_train_batch_size (8 is its default)")
    parser.add_argument("--trl-keeps-activations", action="store_true", help="TRL without gradient checkpointing")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers; results of other parts stay in it")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    missing = [name for name in ("trl", *(() if options.tiny else ("vllm",))) if importlib.util.find_spec(name) is None]
    if missing:
        print(f"trl_step: {' and '.join(missing)} not installed here, nothing to measure (--tiny needs TRL alone)")
        return
    if options.one:
        from trl_step_parts import measure

        side, lengths = options.one
        work = workload(lengths, is_tiny=options.tiny)
        result = measure(side, replace(work, warm_cap=64) if options.short_warm_up else work, options)
        print("RESULT " + json.dumps(result), flush=True)
        return
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), is_tiny=options.tiny)
        for lengths in options.lengths:
            for side in options.sides:
                results[f"{side} {lengths}"] = in_process(side, lengths, Path(folder), options)
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1) + "\n")
    show(results)


def in_process(side: str, lengths: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    flags = ["--one", side, lengths, "--model", str(folder), "--steps", str(options.steps)]
    flags += [
        "--attention",
        options.attention,
        "--trl-rows",
        str(options.trl_rows),
        *(["--tiny"] if options.tiny else []),
    ]
    flags += ["--trl-keeps-activations"] if options.trl_keeps_activations else []
    flags += ["--short-warm-up"] if options.short_warm_up else []
    # What the parts say of each step goes to standard error as it happens: a run that is cut short has said something.
    done = subprocess.run([sys.executable, __file__, *flags], stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    print(done.stdout[-3000:], file=sys.stderr)
    return {"failed": done.returncode}


def save_model(folder: Path, *, is_tiny: bool) -> None:
    """Write the base and a tokenizer with a word for each of its ids: every sampled id can be read, with no download."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    size = workload("uniform", is_tiny=is_tiny).vocabulary
    shape = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16}
    shape |= {"num_key_value_heads": 8, "head_dim": 128}
    toy = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    toy |= {"num_key_value_heads": 2, "head_dim": 16}
    config = Qwen3Config(
        vocab_size=size,
        max_position_embeddings=40_960,
        rope_theta=1_000_000.0,
        tie_word_embeddings=True,
        initializer_range=0.04,
        eos_token_id=1,
        pad_token_id=2,
        **(toy if is_tiny else shape),
    )
    torch.manual_seed(0)
    dtype = torch.float32 if is_tiny else torch.bfloat16
    Qwen3ForCausalLM(config).to(dtype).save_pretrained(folder)
    words = {f"t{number}": number for number in range(size)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="t0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="t1", pad_token="t2").save_pretrained(folder)


def show(results: dict[str, Any]) -> None:
    print(f"\n{'':<11}{'ours, s':>10}{'TRL, s':>10}{'ratio':>8}   bar")
    for lengths in LENGTHS:
        found = [results.get(f"{side} {lengths}", {}).get("seconds") for side in SIDES]
        medians = [statistics.median(seconds) if seconds else None for seconds in found]
        cells = ["-" if value is None else f"{value:.2f}" for value in medians]
        ratio = "-" if None in medians else f"{medians[0] / medians[1]:.2f}"
        print(f"{lengths:<11}{cells[0]:>10}{cells[1]:>10}{ratio:>8}   {BARS[lengths]}")
    for name, result in results.items():
        if "failed" in result:
            print(f"{name}: failed with exit code {result['failed']}")
            continue
        parts = ", ".join(f"{part} {statistics.median(values):.2f}" for part, values in result["parts"].items())
        steps = " ".join(f"{value:.2f}" for value in result["seconds"])
        print(
            f"{name}: steps {steps} s; of these {parts}; {statistics.median(result['tokens']):,.0f} new tokens a step; "
            f"start {result['start_s']:.0f} s, warm-up step {result['warm_s']:.1f} s; peak {result['peak_gib']:.1f} GiB of torch's; "
            f"{result['machine']}"
        )


def machine() -> str:
    from importlib.metadata import PackageNotFoundError, version

    import torch

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    versions: list[str] = []
    for name in ("torch", "transformers", "peft", "vllm", "trl"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join([card, *versions])


if __name__ == "__main__":
    main()
