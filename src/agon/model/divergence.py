"""How far apart two adapters are."""

from __future__ import annotations

import math

from agon.model.pair import AdapterPair


def update_distance(pair: AdapterPair, first: str = "A", second: str = "B") -> float:
    """Return the Frobenius norm of the difference of two adapters' effective updates, over the mean of their norms.

    0 is one and the same update, about 1.41 two unrelated ones of equal size, 2 opposite ones or one that is zero. Computed from
    the rank-sized factors: no update is ever multiplied out.

    Raises:
        ModelError: no such adapter.
    """
    own = inner = other = 0.0
    for site in pair.sites:
        scale, other_scale = site.scale(first), site.scale(second)
        down, up = site.down(first).detach().double(), site.up(first).detach().double()
        down_2, up_2 = site.down(second).detach().double(), site.up(second).detach().double()
        # <B A, B' A'> = sum((B^T B') * (A A'^T))
        own += scale**2 * float(((up.T @ up) * (down @ down.T)).sum())
        inner += scale * other_scale * float(((up.T @ up_2) * (down @ down_2.T)).sum())
        other += other_scale**2 * float(((up_2.T @ up_2) * (down_2 @ down_2.T)).sum())
    mean = (math.sqrt(max(own, 0.0)) + math.sqrt(max(other, 0.0))) / 2
    return math.sqrt(max(own - 2 * inner + other, 0.0)) / mean if mean > 0.0 else 0.0
