"""Does the engine compute with the adapter it is said to have? Logprobs of one fixed text tell.

The engine's logprobs of the text are compared with the learner's, both with the adapter and without. Rounding blurs each of them,
but what the adapter changes is the same on both sides: the slope of the engine's change on the learner's is 1 if the adapter is
there, and 0 if it is not.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from agon.errors import EngineError
from agon.model.base import Base
from agon.model.pair import AdapterPair

# A planted adapter has a large effect, so that a layer type left out shows; a slope of rounded numbers is not exactly 1.
_PLANTED_SLOPE = 0.1
_SLOPE = 0.5
# The slope's own error, above which it says nothing.
_MAX_SLOPE_ERROR = 0.05
# Rounding with the adapter and without; a normal deviation is 1.25 times its mean absolute value.
_TWO_ROUNDINGS = 1.25 * 2**0.5
# Of the noise: an update smaller than this may well be rounded away.
_LEAST_CHANGE = 0.05
_PLANTED_SCALE = 0.05  # of the norm of the layer's own weight


@dataclass(frozen=True, slots=True)
class Effect:
    """How an adapter shows in the engine. Units: nats, means over the tokens of the text.

    `gap` is |engine - learner| with the adapter, `noise` the same without one; `effect` is what the adapter changes by the
    learner's account; `slope` is the share of that which the engine shows, `slope_error` its standard error if rounding is all that blurs it.
    """

    gap: float
    noise: float
    effect: float
    slope: float
    slope_error: float


class EffectProbe:
    """Compares the engine with the learner on one text, adapter after adapter."""

    def __init__(self, base: Base, token_ids: Sequence[int], engine_base: Sequence[float]) -> None:
        """Take the measure of rounding: `engine_base` are the engine's logprobs of the text without any adapter."""
        self.token_ids = tuple(token_ids)
        self._device = base.device
        self._engine_base = torch.tensor(engine_base, dtype=torch.float64)
        self._learner_base = self._learner(base.model)
        self._noise = float((self._engine_base - self._learner_base).abs().mean())
        self._seen: dict[str, tuple[Tensor, Tensor]] = {}

    def require(self, pair: AdapterPair, name: str, engine: Sequence[float], *, is_planted: bool = False) -> Effect:
        """Make sure that the engine has this adapter and not an older one. `engine` are its logprobs of the text under it.

        An effect that is smaller than rounding cannot be told, and passes. A planted one must show in full.

        Raises:
            EngineError: the adapter has no effect or another one, or the engine did not change since the adapter's last version.
        """
        with pair.sampling(name) as model:
            learner = self._learner(model)
        found = torch.tensor(engine, dtype=torch.float64)
        effect = self._effect(found, learner)
        says = (
            f"(slope {effect.slope:.3f} +- {effect.slope_error:.3f} where 1 is right; effect {effect.effect:.3g}, rounding "
            f"{effect.noise:.3g} nats a token)"
        )
        tolerance = _PLANTED_SLOPE if is_planted else _SLOPE
        if effect.slope_error <= _MAX_SLOPE_ERROR and abs(effect.slope - 1.0) > tolerance:
            raise EngineError(
                f"adapter {name} does not act in the engine as it does in the learner {says}: set rollout.engine = "
                '"torch", or another rollout.vllm_adapters'
            )
        if is_planted and effect.slope_error > _MAX_SLOPE_ERROR:
            raise EngineError(f"the engine's rounding hides even a large adapter {says}: use another model.dtype")
        if not is_planted:
            self._require_change(name, found, learner)
        return effect

    def _effect(self, engine: Float[Tensor, " tokens"], learner: Float[Tensor, " tokens"]) -> Effect:
        change, shown = learner - self._learner_base, engine - self._engine_base
        squares = float(change.square().sum())
        slope = float((shown * change).sum()) / squares if squares else 1.0
        return Effect(
            gap=float((engine - learner).abs().mean()),
            noise=self._noise,
            effect=float(change.abs().mean()),
            slope=slope,
            slope_error=_TWO_ROUNDINGS * self._noise / squares**0.5 if squares else float("inf"),
        )

    def _require_change(self, name: str, engine: Float[Tensor, " tokens"], learner: Float[Tensor, " tokens"]) -> None:
        engine_before, learner_before = self._seen.get(name, (None, None))
        self._seen[name] = (engine, learner)
        if engine_before is None or learner_before is None:
            return
        change = float((learner - learner_before).abs().mean())
        # The engine is deterministic on one text: unchanged bits are unchanged weights.
        if change > _LEAST_CHANGE * self._noise and torch.equal(engine, engine_before):
            raise EngineError(
                f"adapter {name} was updated (by {change:.3g} nats a token of the probe text), but not a bit of the engine's "
                "logprobs changed: the engine still has the version before"
            )

    @torch.no_grad()
    def _learner(self, model: torch.nn.Module) -> Float[Tensor, " tokens"]:
        ids = torch.tensor([self.token_ids], device=self._device)
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
        return torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0].double().cpu()


@contextmanager
def planted(pair: AdapterPair, name: str) -> Generator[None]:
    """Give every layer of an adapter a large random update until the block ends, then put back what was there, bit for bit."""
    ups = [site.up(name) for site in pair.sites]
    kept = [up.detach().clone() for up in ups]
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            for site, up in zip(pair.sites, ups, strict=True):
                noise = torch.randn(up.shape, generator=generator).to(up)
                # Of the size of the weights, so that every layer's share can be seen.
                size = float(site.weight.float().norm()) / max(float((noise @ site.down(name)).norm()), 1e-12)
                up.copy_(noise * (_PLANTED_SCALE * size / site.scale(name)))
        yield
    finally:
        with torch.no_grad():
            for up, values in zip(ups, kept, strict=True):
                up.copy_(values)
