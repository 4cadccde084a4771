"""How far an adapter has moved from the base, estimated now and then on what it has just sampled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agon.config import AlarmSettings
from agon.learner.forward import score
from agon.learner.logprobs import output_head
from agon.learner.packing import Sample, make_microbatches
from agon.model.pair import AdapterPair
from agon.records import ADAPTERS, Attempt, Match
from agon.train.alarms import RunAlarm

_MAX_SAMPLES = 32
_TOKENS_AT_ONCE = 8192
_LOGITS_AT_ONCE = 256


class DriftWatch:
    """Measures A's and B's KL to the base every so many steps, and tells of one that is too large."""

    def __init__(self, pair: AdapterPair, own: AlarmSettings, *, temperature: float) -> None:
        """Measure at the `temperature` that completions are sampled with."""
        self._pair = pair
        self._own = own
        self._temperature = temperature

    def see(self, step: int, matches: Sequence[Sequence[Match]]) -> list[RunAlarm]:
        """Return an alarm for each adapter that is too far from the base, if it is time to measure."""
        own = self._own
        if own.kl_explosion == "off" or own.kl_every == 0 or step % own.kl_every:
            return []
        attempts = [attempt for of_problem in matches for match in of_problem for attempt in match.attempts]
        alarms: list[RunAlarm] = []
        for adapter in ADAPTERS:
            mine = [attempt for attempt in attempts if attempt.completion.adapter == adapter]
            kl = kl_to_base(self._pair, mine, temperature=self._temperature) if mine else 0.0
            if kl >= own.kl_nats:
                message = (
                    f"it is {kl:.3g} nats a token from the base (limit {own.kl_nats:.3g}): see in the matches whether it still writes "
                    "sense, or lower train.learning_rate"
                )
                alarms.append(
                    RunAlarm(
                        "kl-explosion",
                        step,
                        since=step,
                        about=adapter,
                        mode=own.kl_explosion,
                        message=message,
                        metric="KL to the base",
                        value=kl,
                        threshold=own.kl_nats,
                    )
                )
        return alarms


@torch.no_grad()
def kl_to_base(pair: AdapterPair, attempts: Sequence[Attempt], *, temperature: float) -> float:
    """Estimate KL(policy || base) by the mean of log policy / base over the tokens of at most 32 completions of the policy.

    The policy's logprobs are those that the engine gave, so that only the base has to read them. Unbiased; one with few tokens may
    come out below zero.

    Units: nats a token.
    """
    count = min(_MAX_SAMPLES, len(attempts))
    chosen = [attempts[number * len(attempts) // count] for number in range(count)]
    samples = [
        Sample(attempt.prompt.token_ids, attempt.completion.token_ids, attempt.completion.logprobs, advantage=0.0)
        for attempt in chosen
        if attempt.completion.token_ids
    ]
    head, device = output_head(pair.base.model), pair.base.device
    batches = make_microbatches(samples, range(len(samples)), budget=_TOKENS_AT_ONCE, is_packed=False, device=device)
    total = 0.0
    with pair.sampling(None) as model:
        for batch in batches:
            base = score(model, batch, head, temperature=temperature, chunk=_LOGITS_AT_ONCE).logprobs
            total += float((batch.behavior_logprobs - base).sum())
    return total / max(sum(len(sample.completion_ids) for sample in samples), 1)
