"""Sample with vLLM, in the learner's process and on its GPU."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from agon.errors import EngineError
from agon.model.base import Base
from agon.model.pair import AdapterPair
from agon.records import Completion, Request
from agon.rollout.checks import check_known, check_request
from agon.rollout.effect import Effect, EffectProbe, planted
from agon.rollout.engine import Grow, OnFinish
from agon.rollout.text import TextReader
from agon.rollout.vllm_adapters import Adapters
from agon.rollout.vllm_loop import Job, Sampled, run, score_prompt
from agon.rollout.vllm_server import VllmServer, check_temperature

_Stamp = tuple[int, tuple[tuple[int, int], ...]]


class VllmEngine:
    """Samples from a pair of adapters, or from a bare base, behind the border of every engine.

    Before each batch, adapters that have learned since are loaded anew and looked at: at the start an adapter with a large update
    is planted to see that every layer takes part, and after each update the engine's logprobs of a fixed text must have changed as
    the learner's have. A completion carries the version that was loaded, not the one the learner has by then.

    A request's random numbers are a function of its seed and of the token's position (vLLM's own per-request seeds). Unlike the
    torch engine's, its tokens may still depend on the rest of the batch, where rounding decides between two near-equal tokens.
    At temperature 0 the logprob is 0. In bfloat16, vLLM divides logits by the temperature in bfloat16. `effects` is how each adapter
    last showed, `load_seconds` what taking them over has cost.
    """

    def __init__(self, server: VllmServer, source: AdapterPair | Base, adapters: Adapters | None = None) -> None:
        """Serve `source` with a server that was started on the same base; a pair needs `adapters`."""
        assert (adapters is None) == isinstance(source, Base), "a pair needs a way to serve it, a bare base has none"
        self.server = server
        self._pair = None if isinstance(source, Base) else source
        self._base = source if isinstance(source, Base) else source.base
        self._adapters = adapters
        self._text = TextReader(self._base.tokenizer)
        self._vocab_size = int(self._base.model.get_input_embeddings().weight.shape[0])
        self._stamps: dict[str, _Stamp] = {}
        self._probe: EffectProbe | None = None
        self.effects: dict[str, Effect] = {}
        self.load_seconds = 0.0

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self.server.options.context_length

    @property
    def names(self) -> Sequence[str]:
        """Every adapter."""
        return () if self._pair is None else self._pair.names

    @property
    def can_grow(self) -> bool:
        """Whether requests of any adapter may join a running batch."""
        return self._adapters is None or self._adapters.can_mix

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Sample one completion for each request, in the order of the requests.

        Raises:
            EngineError: an unknown adapter, a request that does not fit, or an adapter that does not act as it should.
        """

        def tell(index: int, completion: Completion) -> Iterable[Request]:
            if on_finish is not None:
                on_finish(index, completion)
            return ()

        if self.can_grow:
            return self._run(requests, tell, first=range(len(requests)))
        completions: dict[int, Completion] = {}
        for name in dict.fromkeys(request.adapter for request in requests):
            indexes = [index for index, request in enumerate(requests) if request.adapter == name]
            group = [requests[index] for index in indexes]
            found = self._run(group, lambda i, completion, at=indexes: tell(at[i], completion), first=indexes)
            completions |= dict(zip(indexes, found, strict=True))
        return [completions[index] for index in range(len(requests))]

    def grow(self, requests: Sequence[Request], grow: Grow, *, adapters: Sequence[str | None]) -> list[Completion]:
        """Sample requests, and those that `grow` adds as earlier ones end, in one batch; those added come last, as they came.

        `adapters` are all that those added may ask for: none can be loaded while requests run.

        Raises:
            EngineError: as `generate`; also where one adapter is served at a time.
        """
        if not self.can_grow:
            raise EngineError('requests can only join a batch with rollout.vllm_adapters = "multi-lora"')
        for name in adapters:
            self.load(name)
        return self._run(requests, grow, first=range(len(requests)))

    def load(self, name: str | None) -> None:
        """Serve the adapter as the pair has it now, and look whether it acts.

        Raises:
            EngineError: it does not.
        """
        if self._adapters is None or self._pair is None:
            return
        started = time.perf_counter()
        self._load(name, self._adapters, self._pair)
        self.load_seconds += time.perf_counter() - started

    def _load(self, name: str | None, adapters: Adapters, pair: AdapterPair) -> None:
        if self._probe is None:
            self._start_probe(adapters, pair)
        stamp = None if name is None else _stamp(pair, name)
        is_new = stamp is not None and self._stamps.get(name or "") != stamp
        if not is_new and adapters.keep(name):
            return
        adapters.load(name)
        if name is not None and stamp is not None and is_new:
            assert self._probe is not None, "made above"
            self.effects[name] = self._probe.require(pair, name, self._score(name))
            self._stamps[name] = stamp

    def use_probe(self, token_ids: Sequence[int]) -> None:
        """Look at adapters through this text (at least two tokens) instead of a made-up one."""
        assert self._adapters is not None, "a bare base has no adapters to look at"
        self._adapters.load(None)
        base_scores = score_prompt(self.server, token_ids, self._adapters.route(None))
        self._probe = EffectProbe(self._base, token_ids, base_scores)

    def check(self, request: Request, *, index: int) -> None:
        """Refuse a request that cannot be served.

        Raises:
            EngineError: it names an unknown adapter or unknown tokens, does not fit the context, or has a temperature unknown to vLLM.
        """
        check_request(request, self.context_length, index=index)
        check_known(request, self.names, self._vocab_size, index=index)
        check_temperature(request)

    def route(self, name: str | None) -> Any | None:
        """Return what requests for a loaded adapter are sent with.

        Raises:
            EngineError: it had to make room for another.
        """
        return None if self._adapters is None else self._adapters.route(name)

    def completion(self, sampled: Sampled) -> Completion:
        """Return what a request that has ended was given."""
        request, reason = sampled.job.request, sampled.stop_reason
        assert reason is not None, "it has ended"
        return Completion(
            token_ids=tuple(sampled.token_ids),
            logprobs=tuple(sampled.logprobs),
            text=self._text.read(sampled.token_ids, has_stop=reason == "stop"),
            stop_reason=reason,
            adapter=request.adapter,
            adapter_version=0 if request.adapter is None else self._stamps[request.adapter][0],
        )

    def close(self) -> None:
        """End vLLM and give its memory back."""
        self.server.close()

    def _start_probe(self, adapters: Adapters, pair: AdapterPair) -> None:
        if self._probe is None:
            stop_ids = set(self._base.stop_ids)
            made_up = ((7919 * place + 104729) % self._vocab_size for place in range(128))
            self.use_probe([token for token in made_up if token not in stop_ids])
        assert self._probe is not None, "made above"
        name = pair.names[0]
        with planted(pair, name):
            adapters.load(name)
            self.effects["planted"] = self._probe.require(pair, name, self._score(name), is_planted=True)

    def _score(self, name: str) -> list[float]:
        assert self._probe is not None, "made before any adapter is loaded"
        assert self._adapters is not None, "a bare base has no adapters to look at"
        return score_prompt(self.server, self._probe.token_ids, self._adapters.route(name))

    def _run(self, requests: Sequence[Request], grow: Grow, *, first: Sequence[int]) -> list[Completion]:
        """Run one batch; `first` names the requests in messages."""
        everything = list(requests)
        for index, request in zip(first, requests, strict=True):
            self.check(request, index=index)
        completions: dict[int, Completion] = {}

        def end(sampled: Sampled) -> list[Job]:
            index = sampled.job.index
            completions[index] = self.completion(sampled)
            added: list[Job] = []
            for request in grow(index, completions[index]):
                self.check(request, index=len(everything))
                added.append(Job(len(everything), request, self.route(request.adapter)))
                everything.append(request)
            return added

        for name in dict.fromkeys(request.adapter for request in requests):
            self.load(name)
        run(
            self.server,
            [Job(index, request, self.route(request.adapter)) for index, request in enumerate(requests)],
            end,
        )
        return [completions[index] for index in range(len(everything))]


def _stamp(pair: AdapterPair, name: str) -> _Stamp:
    """Tell whether an adapter was written to, without reading it: its steps, and torch's own count of writes."""
    return pair.version(name), tuple((matrix.data_ptr(), matrix._version) for matrix in pair.parameters(name))
