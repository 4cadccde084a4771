"""Two adapters' own answers to the same problems: who is better, whether they fail alike, and what they solve together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agon.records import ADAPTERS, Attempt
from agon.seeding import numpy_rng
from agon.stats import (
    Complementarity,
    Gain,
    Interval,
    PairedDifference,
    accuracy_interval,
    complementarity_from_counts,
    complementarity_intervals,
    min_detectable_difference,
    paired_difference,
    pass_at_k,
    union_gain,
)

_Correct = Sequence[Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Single:
    """One adapter's own answers. `tokens` is the mean of sampled tokens an answer."""

    accuracy: float
    interval: Interval
    pass_at_2: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Strength:
    """The balance between the two: B's accuracy minus A's, paired by problem.

    `min_detectable` is the true difference that this many problems show with probability .8; a smaller one may be there unseen.
    """

    difference: PairedDifference
    min_detectable: float | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Who is right where: the measures over every pair of samples, one of each side, and their intervals over problems."""

    measures: Complementarity
    intervals: dict[str, Interval | None]


@dataclass(frozen=True, slots=True)
class Union:
    """What one sample of A and one of B solve together; less the mean of both adapters' pass@2, and less the stronger's."""

    union: float
    gain: Gain
    gain_over_stronger: Gain


@dataclass(frozen=True, slots=True)
class Singles:
    """A and B side by side. `overlap` is of A with B (`A-B`) and, to compare with, of each with further samples of itself (`A-A`, `B-B`)."""

    players: dict[str, Single]
    strength: Strength
    overlap: dict[str, Overlap]
    union: Union


def compare_singles(answers: Mapping[str, Sequence[Sequence[Attempt]]], *, seed: int) -> Singles:
    """Compare the answers of A and B, one inner sequence of samples a problem.

    A check that failed counts as wrong, as in an evaluation.

    Raises:
        ValueError: no problems, or a problem with fewer than two samples.
    """
    correct = {
        name: [[attempt.is_correct for attempt in of_problem] for of_problem in answers[name]] for name in ADAPTERS
    }
    a, b = correct["A"], correct["B"]
    strength = _strength(a, b, seed=seed)
    return Singles(
        players={name: _single(answers[name], correct[name], seed=seed) for name in ADAPTERS},
        strength=strength,
        overlap={
            "A-B": _overlap([_pairs(*both) for both in zip(a, b, strict=True)], seed=seed),
            "A-A": _overlap([_pairs_within(row) for row in a], seed=seed),
            "B-B": _overlap([_pairs_within(row) for row in b], seed=seed),
        },
        union=Union(
            union=_mean([1.0 - (1.0 - _mean(x)) * (1.0 - _mean(y)) for x, y in zip(a, b, strict=True)]),
            gain=union_gain(a, b, seed=seed),
            gain_over_stronger=union_gain(
                a, b, null="second" if strength.difference.difference > 0 else "first", seed=seed
            ),
        ),
    )


def _single(answers: Sequence[Sequence[Attempt]], correct: _Correct, *, seed: int) -> Single:
    return Single(
        accuracy=_mean([_mean(row) for row in correct]),
        interval=accuracy_interval(correct, seed=seed),
        pass_at_2=_mean([pass_at_k(len(row), sum(row), 2) for row in correct]),
        tokens=_mean([attempt.completion.num_tokens for of_problem in answers for attempt in of_problem]),
    )


def _strength(first: _Correct, second: _Correct, *, seed: int) -> Strength:
    difference = paired_difference(first, second, rng=numpy_rng(seed, "balance of strength"))
    squares = [(_mean(b) - _mean(a)) ** 2 for a, b in zip(first, second, strict=True)]
    return Strength(difference, min_detectable_difference(len(first), _mean(squares)))


def _overlap(counts: Sequence[tuple[int, int, int, int]], *, seed: int) -> Overlap:
    both, only_first, only_second, neither = (int(total) for total in np.sum(counts, axis=0))
    measures = complementarity_from_counts(both=both, only_first=only_first, only_second=only_second, neither=neither)
    return Overlap(measures, complementarity_intervals(counts, seed=seed))


def _pairs(first: Sequence[bool], second: Sequence[bool]) -> tuple[int, int, int, int]:
    """Count every sample of one beside every sample of the other, by who is right."""
    a, b = sum(first), sum(second)
    not_a, not_b = len(first) - a, len(second) - b
    return a * b, a * not_b, not_a * b, not_a * not_b


def _pairs_within(samples: Sequence[bool]) -> tuple[int, int, int, int]:
    """Count every sample beside every other of the same adapter."""
    right = sum(samples)
    wrong = len(samples) - right
    return right * (right - 1), right * wrong, wrong * right, wrong * (wrong - 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
