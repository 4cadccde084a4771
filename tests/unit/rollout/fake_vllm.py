"""A small stand-in for vLLM 0.26's in-process engine, faithful in what agon relies on.

Weights are fused as vLLM fuses them and really used: the logits are those of the base computed from the fused rows, plus the
adapter of the request's route, read from stacked buffers. Outputs come one step late, as with asynchronous scheduling. Prompts
are cached by tokens and adapter *name* until the cache is reset, whatever the weights have become since.
"""

from __future__ import annotations

import sys
from collections import deque
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

PACKS = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
PADDING = 16


class Record(SimpleNamespace):
    """A struct made from keywords."""


class FinishReason(str):
    pass


class FusedModel(nn.Module):
    packed_modules_mapping = PACKS

    def __init__(self, base_model: nn.Module, *, with_adapters: bool) -> None:
        super().__init__()
        self._names = {}
        weights = dict(base_model.named_parameters())
        for name, weight in weights.items():
            path, _, kind = name.rpartition(".")
            parent, _, part = path.rpartition(".")
            pack = next((pack for pack, parts in PACKS.items() if part in parts), None)
            if pack is None:
                fused = weight.detach().clone()
                if part == "embed_tokens":
                    fused = torch.cat([fused, torch.zeros(PADDING, fused.shape[1])])
                is_linear = part in ("o_proj", "down_proj")
                self._put(f"{path}.base_layer.{kind}" if is_linear and with_adapters else name, fused)
            elif part == PACKS[pack][0]:
                rows = [weights[f"{parent}.{other}.{kind}"].detach() for other in PACKS[pack]]
                middle = ".base_layer" if with_adapters else ""
                self._put(f"{parent}.{pack}{middle}.{kind}", torch.cat(rows))

    def _put(self, name: str, values: torch.Tensor) -> None:
        module: nn.Module = self
        *path, leaf = name.split(".")
        for step in path:
            if step not in dict(module.named_children()):
                module.add_module(step, nn.Module())
            module = module.get_submodule(step)
        module.register_parameter(leaf, nn.Parameter(values, requires_grad=False))


class AdapterLayer:
    """Room for `slots` adapters at one fused layer."""

    def __init__(self, parts: list[torch.Size], *, slots: int, rank: int) -> None:
        self.lora_a_stacked = [torch.zeros(slots, 1, rank, shape[1]) for shape in parts]
        self.lora_b_stacked = [torch.zeros(slots, 1, shape[0], rank) for shape in parts]


class Manager:
    """The worker's adapter manager: loads by id, takes a known id for known weights."""

    def __init__(self, base_model: nn.Module, *, slots: int, rank: int, leave_out: tuple[str, ...]) -> None:
        shapes = {name: module.weight.shape for name, module in base_model.named_modules() if hasattr(module, "weight")}
        self.modules: dict[str, AdapterLayer] = {}
        for name in shapes:
            parent, _, part = name.rpartition(".")
            pack = next((pack for pack, parts in PACKS.items() if part in parts), part)
            if pack in ("qkv_proj", "gate_up_proj", "o_proj", "down_proj") and pack not in leave_out:
                parts = [shapes[f"{parent}.{other}"] for other in PACKS.get(pack, [pack])]
                self.modules.setdefault(f"{parent}.{pack}", AdapterLayer(parts, slots=slots, rank=rank))
        self.lora_index_to_id: list[int | None] = [None] * slots
        self._adapter_manager = self

    def _load_adapter(self, request):
        raise FileNotFoundError(request.lora_path)

    def add(self, request) -> None:
        if request.lora_int_id in self.lora_index_to_id:
            return
        loaded = self._load_adapter(request)
        slot = self.lora_index_to_id.index(None)
        self.lora_index_to_id[slot] = request.lora_int_id
        for path, layer in self.modules.items():
            parent, _, pack = path.rpartition(".")
            for number, part in enumerate(PACKS.get(pack, [pack])):
                for letter, stacked in (("A", layer.lora_a_stacked), ("B", layer.lora_b_stacked)):
                    matrix = loaded.tensors.get(f"base_model.model.{parent}.{part}.lora_{letter}.weight")
                    stacked[number][slot].zero_()
                    if matrix is not None:
                        stacked[number][slot, 0, : matrix.shape[0], : matrix.shape[1]] = matrix

    def remove(self, number: int) -> None:
        self.lora_index_to_id[self.lora_index_to_id.index(number)] = None


class FakeEngine:
    """An `LLMEngine`: everything behind `engine_core`, which is its own core as well."""

    def __init__(
        self,
        base_model: nn.Module,
        inner: nn.Module,
        *,
        adapters: int = 0,
        rank: int = 8,
        max_rows: int = 4,
        leave_out: tuple[str, ...] = (),
    ) -> None:
        self.model = FusedModel(base_model, with_adapters=adapters > 0)
        self.manager = Manager(base_model, slots=adapters, rank=rank, leave_out=leave_out) if adapters else None
        self._inner = inner
        self._max_rows = max_rows
        self._waiting: deque = deque()
        self._running: dict[str, Record] = {}
        self._prefixes: dict[tuple, torch.Tensor] = {}
        self.batch_queue: deque = deque()
        self.most_running = 0
        self.num_resets = 0
        self.is_closed = False
        self.added: list = []
        self.engine_core = self
        self.scheduler = self

    # --- client

    def add_request(self, request) -> None:
        assert all(isinstance(token, int) for token in request.prompt_token_ids)
        self.added.append(request)
        self._waiting.append(Record(request=request, tokens=[], is_prefilled=False))

    def get_output(self):
        if self.has_requests():
            self.batch_queue.appendleft(self._execute())
            if len(self.batch_queue) < 2:
                return Record(outputs=[])
        return Record(outputs=self.batch_queue.pop() if self.batch_queue else [])

    def abort_requests(self, request_ids) -> None:
        for request_id in request_ids:
            self._running.pop(request_id, None)
        self._waiting = deque(row for row in self._waiting if row.request.request_id not in request_ids)

    def has_requests(self) -> bool:
        return bool(self._waiting or self._running)

    def reset_prefix_cache(self) -> bool:
        if self.has_requests():
            return False
        self._prefixes.clear()
        self.num_resets += 1
        return True

    def collective_rpc(self, method):
        if method == "get_model":
            return [self.model]
        return [method(Record(model_runner=Record(lora_manager=self.manager)))]

    def add_lora(self, request) -> None:
        self.manager.add(request)

    def remove_lora(self, number: int) -> None:
        self.manager.remove(number)

    def shutdown(self) -> None:
        self.is_closed = True

    # --- core

    def _execute(self):
        while self._waiting and len(self._running) < self._max_rows:
            row = self._waiting.popleft()
            self._running[row.request.request_id] = row
        self.most_running = max(self.most_running, len(self._running))
        return [self._advance(row) for row in list(self._running.values())]

    def _advance(self, row):
        request, params = row.request, row.request.sampling_params
        prompt = list(request.prompt_token_ids)
        logits = self._logits(prompt + row.tokens, request.lora_request)
        scores = None
        key = (tuple(prompt), request.lora_request.lora_name if request.lora_request else None)
        last = logits[-1]
        if not row.is_prefilled:
            row.is_prefilled = True
            if params.prompt_logprobs is not None:  # computed anew, past the cache
                every = torch.log_softmax(logits[:-1], dim=-1)
                scores = every.gather(1, torch.tensor(prompt[1:])[:, None])
            else:
                last = self._prefixes.setdefault(key, last)
        token, logprob = _sample(last, params, len(row.tokens) + len(prompt))
        row.tokens.append(token)
        reason = "stop" if token in params.stop_token_ids else None
        if reason is None and len(row.tokens) >= params.max_tokens:
            reason = "length"
        if reason is not None:
            del self._running[request.request_id]
        return Record(
            request_id=request.request_id,
            new_token_ids=[token],
            new_logprobs=None if params.logprobs is None else Record(logprobs=torch.tensor([[logprob]]).numpy()),
            new_prompt_logprobs_tensors=None if scores is None else Record(logprobs=scores),
            finish_reason=None if reason is None else FinishReason(reason),
        )

    @torch.no_grad()
    def _logits(self, ids: list[int], route) -> torch.Tensor:
        fused = {name.replace(".base_layer.", "."): values for name, values in self.model.named_parameters()}
        for name, parameter in self._inner.named_parameters():
            path, _, kind = name.rpartition(".")
            parent, _, part = path.rpartition(".")
            pack = next((pack for pack, parts in PACKS.items() if part in parts), part)
            parts = PACKS.get(pack, [part])
            number = parts.index(part)
            sizes = [self._inner.get_parameter(_join(parent, other, kind)).shape[0] for other in parts]
            first = sum(sizes[:number])
            rows = fused[_join(parent, pack, kind)][first : first + parameter.shape[0]]
            parameter.copy_(rows)
            layer = self.manager.modules.get(f"{parent}.{pack}") if self.manager and route is not None else None
            if layer is not None and kind == "weight":
                slot = self.manager.lora_index_to_id.index(route.lora_int_id)
                parameter += layer.lora_b_stacked[number][slot, 0] @ layer.lora_a_stacked[number][slot, 0]
        return self._inner(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _sample(logits: torch.Tensor, params, position: int) -> tuple[int, float]:
    if params.temperature == 0:
        logprobs = torch.log_softmax(logits, dim=-1)
        return int(logits.argmax()), float(logprobs.max())
    logprobs = torch.log_softmax(logits / params.temperature, dim=-1)
    if params.top_p < 1:
        order = logprobs.argsort(descending=True)
        mass = logprobs[order].exp().cumsum(0) - logprobs[order].exp()
        logprobs[order[mass >= params.top_p]] = -torch.inf
        logprobs = torch.log_softmax(logprobs, dim=-1)
    generator = torch.Generator().manual_seed((params.seed * 1_000_003 + position) % (1 << 62))
    token = int(torch.multinomial(logprobs.exp(), 1, generator=generator))
    return token, float(logprobs[token])


class LoadedAdapter:
    """vLLM's `LoRAModel`."""

    @classmethod
    def from_lora_tensors(cls, *, lora_model_id, tensors, peft_helper, device, weights_mapper):
        assert peft_helper.lora_alpha == peft_helper.r
        return Record(id=lora_model_id, tensors=tensors)


def install(monkeypatch: pytest.MonkeyPatch, make_engine=None) -> None:
    """Let `import vllm...` find this."""
    parts = {
        "vllm": {},
        "vllm.v1": {},
        "vllm.lora": {},
        "vllm.engine": {},
        "vllm.sampling_params": {"SamplingParams": Record},
        "vllm.v1.engine": {"EngineCoreRequest": Record},
        "vllm.v1.engine.llm_engine": {"LLMEngine": Record(from_engine_args=make_engine)},
        "vllm.engine.arg_utils": {"EngineArgs": Record},
        "vllm.lora.lora_model": {"LoRAModel": LoadedAdapter},
        "vllm.lora.peft_helper": {"PEFTHelper": Record},
        "vllm.lora.request": {"LoRARequest": Record},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        for key, value in content.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, name, module)
