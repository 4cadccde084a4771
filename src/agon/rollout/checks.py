"""What every engine's answer must satisfy before anything learns from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agon.errors import EngineError
from agon.records import Completion, Request

MAX_LOGPROB = 1e-3  # a probability may exceed 1 by rounding, not by more


def check_request(request: Request, context_length: int, *, index: int = 0) -> None:
    """Refuse a request that no engine could serve.

    Raises:
        EngineError: an empty prompt, a cap below one token, sampling parameters out of range, or more tokens than the context.
    """
    num_prompt, cap = len(request.prompt_ids), request.max_tokens
    if num_prompt == 0:
        raise EngineError(f"request {index} has an empty prompt: give at least one token")
    if cap < 1:
        raise EngineError(f"request {index} asks for max_tokens = {cap}: give 1 or more")
    if not (math.isfinite(request.temperature) and request.temperature >= 0.0):
        raise EngineError(
            f"request {index} has temperature {request.temperature}: give 0 (greedy) or a positive number"
        )
    if not 0.0 < request.top_p <= 1.0:
        raise EngineError(f"request {index} has top_p {request.top_p}: give a number above 0 and at most 1")
    if num_prompt + cap > context_length:
        raise EngineError(
            f"request {index} needs {num_prompt} prompt + {cap} new = {num_prompt + cap} tokens, but the context holds "
            f"{context_length}: lower the cap on new tokens or shorten the prompt"
        )


def check_known(request: Request, names: Sequence[str], vocab_size: int, *, index: int = 0) -> None:
    """Refuse a request for what the engine's model does not have.

    Raises:
        EngineError: an adapter that is not loaded, or a token id outside of the vocabulary.
    """
    if request.adapter is not None and request.adapter not in names:
        known = ", ".join(names) or "none, this is a bare base"
        raise EngineError(
            f"request {index} asks for adapter {request.adapter!r}, which is not loaded: known are {known}"
        )
    if not 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < vocab_size:
        raise EngineError(
            f"request {index} has token ids from {min(request.prompt_ids)} to {max(request.prompt_ids)}, but the model "
            f"knows 0 to {vocab_size - 1}: encode the prompt with the model's own tokenizer"
        )


def check_completions(
    requests: Sequence[Request],
    completions: Sequence[Completion],
    versions: Mapping[str | None, int] | None = None,
    *,
    max_lag: int = 0,
) -> None:
    """Refuse answers that do not fit their requests.

    `versions` says how many optimiser steps each adapter has taken; an engine that sampled from one more than `max_lag` steps older,
    or from a newer one, is caught here, before a gradient is computed from it. An adapter that it does not name is not compared.

    Raises:
        EngineError: completions missing, ids and logprobs of different length, a logprob that is no logprob, another adapter
            or another version than asked for.
    """
    if len(completions) != len(requests):
        raise EngineError(
            f"the engine returned {len(completions)} completions for {len(requests)} requests: every request needs one"
        )
    for index, (request, completion) in enumerate(zip(requests, completions, strict=True)):
        _check_tokens(index, request, completion)
        _check_adapter(index, request, completion, versions or {}, max_lag)


def _check_tokens(index: int, request: Request, completion: Completion) -> None:
    num_ids, num_logprobs = len(completion.token_ids), len(completion.logprobs)
    if num_ids != num_logprobs:
        raise EngineError(
            f"completion {index} has {num_ids} token ids but {num_logprobs} logprobs: the engine must return one for each"
        )
    if not 1 <= num_ids <= request.max_tokens:
        raise EngineError(
            f"completion {index} has {num_ids} tokens, but 1 to {request.max_tokens} were asked for: check the engine's caps"
        )
    for position, logprob in enumerate(completion.logprobs):
        if not math.isfinite(logprob) or logprob > MAX_LOGPROB:
            raise EngineError(
                f"completion {index} has logprob {logprob} at token {position}: a logprob is finite and at most 0; "
                f"look for non-finite weights in adapter {completion.adapter or 'none (the base)'}"
            )


def _check_adapter(
    index: int, request: Request, completion: Completion, versions: Mapping[str | None, int], max_lag: int
) -> None:
    if completion.adapter != request.adapter:
        raise EngineError(
            f"completion {index} was sampled from adapter {completion.adapter!r}, but {request.adapter!r} was asked for: "
            "check how the engine routes adapters"
        )
    wanted = versions.get(request.adapter)
    if wanted is not None and not 0 <= wanted - completion.adapter_version <= max_lag:
        allowed = f" (rollout.max_adapter_lag allows {max_lag})" if max_lag else ""
        raise EngineError(
            f"the engine has version {completion.adapter_version} of adapter {request.adapter!r}, the trainer {wanted}{allowed}: "
            "new weights did not reach the engine before sampling"
        )
