"""How A and B start. A never changes what the base says at step 0; B may, by a stated amount.

Every matrix is drawn from its own named stream, so that a layer's start does not depend on which layers come before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from agon.errors import ConfigError, ModelError
from agon.model.lora import Site
from agon.seeding import numpy_rng, stream_seed

if TYPE_CHECKING:
    from agon.model.pair import AdapterPair

_TOLERANCE = 0.02
_MAX_TRIALS = 40
# Enough positions for a mean, few enough that their logits over a large vocabulary fit: 8 x 64 x 152k floats are 311 MB.
_NUM_PROBES = 8
_PROBE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class InitReport:
    """How the pair was initialised; `noise_sigma` and `noise_kl` are 0 unless B got noise.

    Units: `noise_kl` in nats per token.
    """

    init: str
    noise_sigma: float = 0.0
    noise_kl: float = 0.0

    def __str__(self) -> str:
        noise = (
            f", B's noise has sigma {self.noise_sigma:.3g} and KL {self.noise_kl:.3g} nats a token"
            if self.noise_sigma
            else ""
        )
        return f"init {self.init}{noise}"


def initialise_pair(pair: AdapterPair, *, seed: int, probe_prompts: Sequence[Sequence[int]] | None) -> InitReport:
    """Draw both adapters' matrices as the pair's settings say.

    Raises:
        ConfigError: an odd rank with `init = "orthogonal"`.
        ModelError: no noise of any size reaches the KL asked for.
    """
    settings = pair.settings
    for name in ("A", "B"):
        for site in pair.sites:
            generator = torch.Generator().manual_seed(stream_seed(seed, "adapter", name, site.path))
            if settings.init == "orthogonal":
                _draw_orthogonal(site, name, generator)
            else:
                _draw_standard(site, name, generator)
    if settings.init != "noise":
        return InitReport(init=settings.init)
    prompts = probe_prompts or _random_prompts(pair, seed)
    sigma, kl = _calibrate_noise(pair, "B", seed=seed, prompts=prompts, target=settings.noise_kl)
    return InitReport(init=settings.init, noise_sigma=sigma, noise_kl=kl)


def token_kl(pair: AdapterPair, name: str, prompts: Sequence[Sequence[int]]) -> float:
    """Measure the mean KL(adapter || base) of the next token over every position of the prompts.

    Units: nats per token.
    """
    return _mean_kl(_next_token_logprobs(pair, name, prompts), _next_token_logprobs(pair, None, prompts))


@torch.no_grad()
def _next_token_logprobs(
    pair: AdapterPair, name: str | None, prompts: Sequence[Sequence[int]]
) -> list[Float[Tensor, "seq vocab"]]:
    with pair.sampling(name) as model:
        ids = [torch.tensor([list(prompt)], device=pair.base.device) for prompt in prompts]
        return [torch.log_softmax(model(row, use_cache=False).logits[0].float(), dim=-1) for row in ids]


def _mean_kl(own: Sequence[Tensor], base: Sequence[Tensor]) -> float:
    # float64: a KL of 1e-4 is a sum of terms a thousand times its size.
    terms = [(p.double().exp() * (p.double() - q.double())).sum() for p, q in zip(own, base, strict=True)]
    return float(torch.stack(terms).sum()) / sum(len(logprobs) for logprobs in own)


def _draw_standard(site: Site, name: str, generator: torch.Generator) -> None:
    """LoRA's own start (arXiv:2106.09685 as PEFT has it): Kaiming-uniform A-matrix, zero B-matrix."""
    down = torch.empty(site.down(name).shape)
    torch.nn.init.kaiming_uniform_(down, a=math.sqrt(5), generator=generator)
    _put(site.down(name), down)
    _put(site.up(name), torch.zeros(site.up(name).shape))


def _draw_orthogonal(site: Site, name: str, generator: torch.Generator) -> None:
    """PEFT's `orthogonal`: A and B span orthogonal halves of the rank, so that B·A is zero and neither factor is."""
    rank, inputs = site.down(name).shape
    outputs = site.up(name).shape[0]
    if rank % 2:
        raise ConfigError(f'adapter.rank is {rank}, but adapter.init = "orthogonal" splits it in two: use an even rank')
    # float64, so that B·A is zero to the last bits of float32.
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    rotation, _ = torch.linalg.qr(draw(rank, rank))
    down = draw(inputs, rank // 2).mm(rotation[0::2]).T / 10.0
    up = draw(outputs, rank // 2).mm(rotation[1::2]) / 10.0
    _put(site.down(name), down)
    _put(site.up(name), up)


@torch.no_grad()
def _put(target: Tensor, values: Tensor) -> None:
    target.copy_(values)


def _random_prompts(pair: AdapterPair, seed: int) -> list[list[int]]:
    rng = numpy_rng(seed, "adapter", "probe")
    vocabulary = pair.base.model.get_input_embeddings().weight.shape[0]
    length = min(32, pair.base.context_length)
    return [[int(token) for token in rng.integers(0, vocabulary, size=length)] for _ in range(8)]


def _calibrate_noise(
    pair: AdapterPair, name: str, *, seed: int, prompts: Sequence[Sequence[int]], target: float
) -> tuple[float, float]:
    """Scale one fixed draw of noise until the KL to the base is `target`: follow the square law, bisect where it misleads."""
    noise = []
    for site in pair.sites:
        generator = torch.Generator().manual_seed(stream_seed(seed, "adapter", name, "noise", site.path))
        noise.append(torch.randn(site.up(name).shape, generator=generator))
    probes = [prompt[:_PROBE_TOKENS] for prompt in prompts[:_NUM_PROBES]]
    base = _next_token_logprobs(pair, None, probes)
    low, high, sigma = 0.0, math.inf, 1e-3
    for _ in range(_MAX_TRIALS):
        for site, direction in zip(pair.sites, noise, strict=True):
            _put(site.up(name), sigma * direction)
        kl = _mean_kl(_next_token_logprobs(pair, name, probes), base)
        if abs(kl / target - 1.0) <= _TOLERANCE:
            return sigma, kl
        low, high = (sigma, high) if kl < target else (low, sigma)
        # KL grows with sigma squared while it is small, so that this mostly hits at the second or third trial.
        guess = sigma * (min(4.0, max(0.25, math.sqrt(target / kl))) if kl > 0.0 else 2.0)
        is_outside = not low < guess < high
        sigma = math.sqrt(low * high) if is_outside and low > 0.0 and math.isfinite(high) else guess
    raise ModelError(f"no noise gives adapter B a KL of {target:g} nats to the base: set adapter.noise_kl lower")
