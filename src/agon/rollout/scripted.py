"""An engine that says what it is told to say: for tests of everything above the engine."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol, runtime_checkable

from agon.errors import EngineError
from agon.records import Completion, Request
from agon.rollout.checks import check_request
from agon.rollout.engine import OnFinish

Fault = Literal["missing_logprob", "nan_logprob", "wrong_adapter", "old_version", "never_answers"]
Script = Callable[[str, Request], str] | Mapping[str, str | Sequence[str]]


@runtime_checkable
class TextCodec(Protocol):
    """The part of a tokenizer a scripted engine needs."""

    @property
    def eos_token_id(self) -> int | None:
        """Id that ends a completion."""
        ...

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Turn text into ids."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Turn ids into text."""
        ...


class ScriptedEngine:
    """Answer prompts from a function `(prompt text, request) -> text`, or from a table of prompt text to text or texts.

    Several texts of one prompt are given in turn, over the life of the engine. A text longer than `max_tokens` is cut and ends
    by `length`; any other ends with the end-of-sequence token. Every token's logprob is `logprob`. `requests` keeps what was
    asked. `faults` breaks the answer to the request of that number, counted from 0 over the life of the engine;
    `never_answers` makes `generate` wait `deadline_s` and then raise, as a deadline would.

    Units: `delay_s` seconds before each answer, `logprob` nats.
    """

    def __init__(
        self,
        script: Script,
        tokenizer: TextCodec,
        *,
        context_length: int = 4096,
        versions: Mapping[str, int] | None = None,
        logprob: float = -0.5,
        delay_s: float = 0.0,
        deadline_s: float = 0.2,
        faults: Mapping[int, Fault] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.versions: dict[str, int] = dict(versions or {})
        self._script = script
        self._tokenizer = tokenizer
        self._context_length = context_length
        self._logprob = logprob
        self._delay_s = delay_s
        self._deadline_s = deadline_s
        self._faults: dict[int, Fault] = dict(faults or {})
        self._turns: Counter[str] = Counter()
        self._closed = threading.Event()

    @property
    def context_length(self) -> int:
        """Most tokens that prompt and completion may have together."""
        return self._context_length

    def generate(self, requests: Sequence[Request], on_finish: OnFinish | None = None) -> list[Completion]:
        """Answer each request by the script.

        Raises:
            EngineError: a request that does not fit, a prompt the table does not hold, or the fault `never_answers`.
        """
        completions: list[Completion] = []
        for index, request in enumerate(requests):
            check_request(request, self._context_length, index=index)
            number = len(self.requests)
            self.requests.append(request)
            completion = self._break(self._answer(request), index, self._faults.get(number))
            if self._delay_s:
                time.sleep(self._delay_s)
            completions.append(completion)
            if on_finish is not None:
                on_finish(index, completion)
        return completions

    def close(self) -> None:
        """End a wait that is going on."""
        self._closed.set()

    def _answer(self, request: Request) -> Completion:
        text = self._text(self._tokenizer.decode(request.prompt_ids), request)
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        if self._tokenizer.eos_token_id is not None:
            ids.append(self._tokenizer.eos_token_id)
        is_cut = len(ids) > request.max_tokens
        ids = ids[: request.max_tokens]
        return Completion(
            token_ids=tuple(ids),
            logprobs=(self._logprob,) * len(ids),
            text=self._tokenizer.decode(ids) if is_cut else text,
            stop_reason="length" if is_cut else "stop",
            adapter=request.adapter,
            adapter_version=0 if request.adapter is None else self.versions.get(request.adapter, 0),
        )

    def _text(self, prompt: str, request: Request) -> str:
        if callable(self._script):
            return self._script(prompt, request)
        if prompt not in self._script:
            raise EngineError(f"the script has no answer to the prompt {prompt[-80:]!r}: add it to the table")
        texts = self._script[prompt]
        if isinstance(texts, str):
            return texts
        turn = self._turns[prompt]
        self._turns[prompt] += 1
        return texts[turn % len(texts)]

    def _break(self, completion: Completion, index: int, fault: Fault | None) -> Completion:
        match fault:
            case None:
                return completion
            case "missing_logprob":
                return replace(completion, logprobs=completion.logprobs[:-1])
            case "nan_logprob":
                return replace(completion, logprobs=(*completion.logprobs[:-1], math.nan))
            case "wrong_adapter":
                return replace(completion, adapter=f"not-{completion.adapter}")
            case "old_version":
                return replace(completion, adapter_version=completion.adapter_version - 1)
            case "never_answers":
                self._closed.wait(self._deadline_s)
                raise EngineError(
                    f"request {index} had no answer after {self._deadline_s:g} s: raise the deadline or look at the engine"
                )
