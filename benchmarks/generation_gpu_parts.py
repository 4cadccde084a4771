"""What `generation_gpu.py` measures of agon's engine, in one process with one server."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from generation_gpu import stages
from transformers import AutoModelForCausalLM

from agon.config import AdapterSettings, Settings
from agon.match.engines import Host, server_options
from agon.model.base import BaseIdentity, wrap_model
from agon.model.pair import AdapterPair
from agon.records import Completion, Request
from agon.rollout.vllm_adapters import SwappedAdapters, VersionedAdapters
from agon.rollout.vllm_engine import VllmEngine
from agon.rollout.vllm_server import start_server
from agon.rollout.vllm_weights import FusedWeights, SwappedWeights, adapted_names

Numbers = dict[str, Any]


class Part:
    def __init__(self, part: str, folder: Path, *, max_rows: int) -> None:
        mode = "multi-lora" if part == "multi-lora" else "swapped"
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).cuda()
        self.vocab_size = model.config.vocab_size
        self.base = wrap_model(model, None, identity=BaseIdentity("benchmark", "none"))
        settings = Settings.model_validate(
            {
                "model": {"base": str(folder)},
                "rollout": {"max_rows": max_rows, "max_draft_tokens": 4096, "vllm_adapters": mode},
            }
        )
        started = time.perf_counter()
        options = server_options(settings, self.base, mode)
        self.server = start_server(options, dtype=self.base.dtype, stop_ids=self.base.stop_ids)
        self.started: Numbers = {"server_s": time.perf_counter() - started, "cache_gib": options.cache_bytes / 2**30}
        self.fused = FusedWeights(self.server.model, self.base)
        written = adapted_names(self.base, "all-linear") if part == "swapped" else set[str]()
        before = torch.cuda.memory_allocated()
        self.fused.share(but_not=written)
        torch.cuda.empty_cache()
        base_bytes = sum(parameter.numel() * 2 for parameter in model.parameters())
        self.started["shared_of_base"] = (before - torch.cuda.memory_allocated()) / base_bytes
        self.host = Host(self.server, self.fused, mode)
        self.pair: AdapterPair | None = None
        if part == "bare":
            self.engine = VllmEngine(self.server, self.base)
            return
        held = torch.cuda.memory_allocated()
        self.pair = AdapterPair.create(self.base, AdapterSettings(init="standard"), seed=0)
        self.started["both_adapters_of_base"] = (torch.cuda.memory_allocated() - held) / base_bytes
        self.fill(1e-3)
        if part == "swapped":
            self.weights = SwappedWeights(self.fused, self.pair.sites)
            self.engine = VllmEngine(self.server, self.pair, SwappedAdapters(self.server, self.weights))
        else:
            self.engine = VllmEngine(
                self.server, self.pair, VersionedAdapters(self.server, self.fused, self.pair, room=2)
            )
        started = time.perf_counter()
        for name in ("A", "B"):
            self.engine.load(name)
        self.started["probes_s"] = time.perf_counter() - started
        for name, effect in self.engine.effects.items():
            self.started[f"{name}_slope"] = effect.slope
            self.started[f"{name}_effect"] = effect.effect
            self.started[f"{name}_noise"] = effect.noise

    def fill(self, size: float) -> None:
        """Give both adapters updates whose up-matrices have entries of this size."""
        assert self.pair is not None
        with torch.no_grad():
            for name in self.pair.names:
                for site in self.pair.sites:
                    site.up(name).normal_().mul_(size)

    def call(self, rows: Sequence[tuple[int, ...]], new: int, names: Sequence[str]) -> int:
        asked = names if self.pair is not None else (None,)
        requests = [Request(row, asked[i % len(asked)], new, seed=i) for i, row in enumerate(rows)]
        return sum(completion.num_tokens for completion in self.engine.generate(requests))

    def stages(self, rows: Sequence[tuple[int, ...]], lengths: str, *, is_growing: bool) -> int:
        """Drafts by A, then challenges by B that read more; tokens of both."""
        caps, longer = stages(list(rows), lengths, vocab_size=self.vocab_size)
        drafts = [Request(row, "A", cap, seed=i) for i, (row, cap) in enumerate(zip(rows, caps, strict=False))]
        challenges = [
            Request((*row, *more), "B", cap, seed=9000 + i)
            for i, (row, more, cap) in enumerate(zip(rows, longer, caps[len(rows) :], strict=True))
        ]

        def grow(index: int, completion: Completion) -> Iterable[Request]:
            return [challenges[index]] if index < len(drafts) else []

        if is_growing:
            done = self.engine.grow(drafts, grow, adapters=("A", "B"))
        else:
            done = [*self.engine.generate(drafts), *self.engine.generate(challenges)]
        return sum(completion.num_tokens for completion in done)

    def queue(self, rows: Sequence[tuple[int, ...]], caps: Sequence[int], *, in_groups: bool) -> int:
        """More requests than rows, as an evaluation has; given to vLLM in groups as rows get free, or all at once; tokens."""
        name = None if self.pair is None else "A"
        requests = [Request(row, name, cap, seed=i) for i, (row, cap) in enumerate(zip(rows, caps, strict=True))]
        # As in an evaluation: its prompts have not been read before.
        self.server.forget_prefixes()
        options = self.server.options
        self.server.options = options if in_groups else replace(options, max_rows=len(requests))
        try:
            return sum(completion.num_tokens for completion in self.engine.generate(requests))
        finally:
            self.server.options = options

    def updates(self, count: int) -> Numbers:
        """How long an update takes, how exact it is, and what many of them leave behind."""
        assert self.pair is not None
        found: Numbers = {}
        if self.host.mode == "swapped":
            found |= self._swaps(count)
        times: list[float] = []
        for _ in range(5):
            self.fill(1e-3)
            torch.cuda.synchronize()
            started = time.perf_counter()
            self.engine.load("A")
            torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
        found["update_with_probe_ms"] = 1e3 * sorted(times)[2]
        # How much of a small update reaches the engine: entries as after one step and after some tens of steps.
        for size in (5e-5, 1e-3):
            self.fill(size)
            self.engine.load("A")
            effect = self.engine.effects["A"]
            found |= {f"slope_at_{size:g}": effect.slope, f"effect_at_{size:g}": effect.effect}
            found |= {f"gap_at_{size:g}": effect.gap, f"slope_error_at_{size:g}": effect.slope_error}
        return found

    def _swaps(self, count: int) -> Numbers:
        assert self.pair is not None
        views = {site.path: self.fused.view(f"{site.path}.weight") for site in self.pair.sites}
        self.weights.write("A")
        once = {path: view.clone() for path, view in views.items()}
        torch.cuda.synchronize()
        started = time.perf_counter()
        for number in range(count):
            self.weights.write(("A", "B", None)[number % 3])
        torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        self.weights.write("A")
        is_same = all(torch.equal(view, once[path]) for path, view in views.items())
        self.weights.write(None)
        is_base = all(torch.equal(views[site.path], site.weight) for site in self.pair.sites)
        self.weights.write("A")
        return {"swap_ms": 1e3 * seconds / count, "same_after_swaps": is_same, "base_restored": is_base}

    @torch.no_grad()
    def parity(self, rows: Sequence[tuple[int, ...]]) -> Numbers:
        """Engine logprobs against the model's own forward pass, on tokens the engine sampled."""
        name = None if self.pair is None else "A"
        caps = [(64, 256, 1024)[i % 3] for i in range(len(rows))]
        requests = [Request(row, name, cap, seed=i) for i, (row, cap) in enumerate(zip(rows, caps, strict=True))]
        completions = self.engine.generate(requests)
        gaps: dict[int, list[torch.Tensor]] = {}
        weights: dict[int, list[torch.Tensor]] = {}
        for request, completion, cap in zip(requests, completions, caps, strict=True):
            found = torch.tensor(completion.logprobs, dtype=torch.float64)
            plain = self._plain(request, completion)
            gaps.setdefault(cap, []).append((found - plain).abs())
            weights.setdefault(cap, []).append((plain - found).exp().clamp_max(2.0))
        every = torch.cat([gap for group in gaps.values() for gap in group])
        numbers: Numbers = {"parity_mean": float(every.mean()), "parity_max": float(every.max())}
        return numbers | {f"weight_{cap}": float(torch.cat(weights[cap]).mean()) for cap in sorted(weights)}

    def _plain(self, request: Request, completion: Completion) -> torch.Tensor:
        ids = torch.tensor([[*request.prompt_ids, *completion.token_ids]], device="cuda")
        if self.pair is None:
            logits = self.base.model(input_ids=ids, use_cache=False).logits
        else:
            with self.pair.sampling(request.adapter) as model:
                logits = model(input_ids=ids, use_cache=False).logits
        logprobs = torch.log_softmax(logits[0, len(request.prompt_ids) - 1 : -1].float(), dim=-1)
        return logprobs.gather(1, ids[0, len(request.prompt_ids) :, None])[:, 0].double().cpu()

    def close(self) -> None:
        self.engine.close()
