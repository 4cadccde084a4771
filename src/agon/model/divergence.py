"""How far apart two adapters are, from their rank-sized factors: no update is ever multiplied out."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from agon.model.lora import Site
from agon.model.pair import AdapterPair

# Of the product of the factors' norms: rounding in float32 factors leaves less than this of a direction that is not there.
_RANK_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Subspaces:
    """Principal angles between what two updates span, over `num_layers` layers in which both are non-zero.

    `overlap` is the mean over layers of the mean squared cosine of a layer's principal angles: 1 where one subspace contains the
    other, and `random_overlap` in expectation for unrelated ones (the larger rank over the dimension), which is far from 0 in a
    narrow layer. `smallest`, `median` and `largest` are over the angles of all layers.

    Units: angles in degrees.
    Paper: LoRA, arXiv:2106.09685, section 7.2 and appendix G, whose similarity of subspaces is `overlap`.
    """

    overlap: float
    random_overlap: float
    smallest: float
    median: float
    largest: float
    num_layers: int


@dataclass(frozen=True, slots=True)
class Updates:
    """The effective updates s·B·A of two adapters, all layers together.

    `distance` is the Frobenius norm of their difference over the mean of their norms, as `update_distance` gives it; `cosine` the
    inner product over the product of the norms (None where one is zero). `outputs` compares the spans of the updates' columns (what
    they write), `inputs` those of their rows (what they read); None where no layer has both. The rows keep much of the random
    matrix that LoRA's A starts from: unrelated inputs are no finding, unrelated outputs are one.
    """

    distance: float
    cosine: float | None
    norm_first: float
    norm_second: float
    outputs: Subspaces | None
    inputs: Subspaces | None

    def to_json(self) -> dict[str, Any]:
        """Turn the comparison into plain JSON types."""
        return asdict(self)


class _Products(NamedTuple):
    own: float
    inner: float
    other: float

    @property
    def distance(self) -> float:
        mean = (math.sqrt(self.own) + math.sqrt(self.other)) / 2
        return math.sqrt(max(self.own - 2 * self.inner + self.other, 0.0)) / mean if mean > 0.0 else 0.0


def update_distance(pair: AdapterPair, first: str = "A", second: str = "B") -> float:
    """Return the Frobenius norm of the difference of two adapters' effective updates, over the mean of their norms.

    0 is one and the same update, about 1.41 two unrelated ones of equal size, 2 opposite ones or one that is zero.

    Raises:
        ModelError: no such adapter.
    """
    return _products(pair, first, second).distance


def compare_updates(pair: AdapterPair, first: str = "A", second: str = "B") -> Updates:
    """Compare the effective updates of two adapters: size, direction, and what each layer's spans.

    Raises:
        ModelError: no such adapter.
    """
    products = _products(pair, first, second)
    norms = math.sqrt(products.own), math.sqrt(products.other)
    bases = [(_spans(site, first), _spans(site, second)) for site in pair.sites]
    return Updates(
        distance=products.distance,
        cosine=products.inner / (norms[0] * norms[1]) if min(norms) > 0.0 else None,
        norm_first=norms[0],
        norm_second=norms[1],
        outputs=_compare([(mine.outputs, theirs.outputs) for mine, theirs in bases]),
        inputs=_compare([(mine.inputs, theirs.inputs) for mine, theirs in bases]),
    )


def _products(pair: AdapterPair, first: str, second: str) -> _Products:
    """Return the squared norms and the inner product of two updates."""
    own = inner = other = 0.0
    for name in (first, second):
        pair.parameters(name)  # raises where there is no such adapter
    for site in pair.sites:
        scale, other_scale = site.scale(first), site.scale(second)
        down, up = _factors(site, first)
        down_2, up_2 = _factors(site, second)
        # <B A, B' A'> = sum((B^T B') * (A A'^T))
        own += scale**2 * float(((up.T @ up) * (down @ down.T)).sum())
        inner += scale * other_scale * float(((up.T @ up_2) * (down @ down_2.T)).sum())
        other += other_scale**2 * float(((up_2.T @ up_2) * (down_2 @ down_2.T)).sum())
    return _Products(max(own, 0.0), inner, max(other, 0.0))


def _factors(site: Site, name: str) -> tuple[Tensor, Tensor]:
    return site.down(name).detach().double(), site.up(name).detach().double()


class _Spans(NamedTuple):
    """Orthonormal bases of an update's columns and rows, one column a direction; empty where the update is zero."""

    outputs: Float[ndarray, "outputs kept"]
    inputs: Float[ndarray, "inputs kept"]


def _spans(site: Site, name: str) -> _Spans:
    """Find the singular directions of B·A: QR of the thin factors, then the SVD of a matrix of the rank's size."""
    down, up = (factor.cpu() for factor in _factors(site, name))
    left, upper = torch.linalg.qr(up)
    right, lower = torch.linalg.qr(down.T)
    u, sizes, v = torch.linalg.svd(upper @ lower.T, full_matrices=False)
    kept = int((sizes > _RANK_TOLERANCE * up.norm() * down.norm()).sum())
    return _Spans((left @ u[:, :kept]).numpy(), (right @ v[:kept].T).numpy())


def _compare(pairs: list[tuple[ndarray, ndarray]]) -> Subspaces | None:
    both = [(first, second) for first, second in pairs if first.shape[1] and second.shape[1]]
    if not both:
        return None
    # Rounding may leave a cosine just above 1.
    cosines = [np.clip(np.linalg.svd(first.T @ second, compute_uv=False), 0.0, 1.0) for first, second in both]
    degrees = np.degrees(np.arccos(np.concatenate(cosines)))
    ranks = [max(first.shape[1], second.shape[1]) / len(first) for first, second in both]
    return Subspaces(
        overlap=float(np.mean([np.mean(of_layer**2) for of_layer in cosines])),
        random_overlap=float(np.mean(ranks)),
        smallest=float(degrees.min()),
        median=float(np.median(degrees)),
        largest=float(degrees.max()),
        num_layers=len(both),
    )
