from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from agon.evaluation.singles import compare_singles
from agon.stats import accuracy_interval, complementarity, complementarity_gain, min_detectable_difference


def drawn(rng, chances, samples=2):
    return (rng.random((len(chances), samples)) < np.asarray(chances)[:, None]).tolist()


def test_two_problems_worked_by_hand(answers):
    # problem 1: A right 2 of 2, B 1 of 2; problem 2: A 0 of 2, B 1 of 2
    out = compare_singles({"A": answers([[1, 1], [0, 0]], num_tokens=5), "B": answers([[1, 0], [0, 1]])}, seed=0)
    between = out.overlap["A-B"].measures
    # 4 pairs a problem: (2, 2, 0, 0) and (0, 0, 2, 2)
    assert (between.both, between.only_first, between.only_second, between.neither) == (2, 2, 2, 2)
    assert between.rho == 0.0
    # A against itself: both right twice, both wrong twice; B against itself: one right, one wrong, each way
    assert (out.overlap["A-A"].measures.rho, out.overlap["B-B"].measures.rho) == (1.0, -1.0)
    assert (out.players["A"].accuracy, out.players["A"].pass_at_2, out.players["A"].tokens) == (0.5, 0.5, 5.0)
    assert (out.players["B"].accuracy, out.players["B"].pass_at_2, out.players["B"].tokens) == (0.5, 1.0, 3.0)
    # union: 1 on the first, 1 - 1 * 1/2 on the second; the mean of both pass@2 is .75
    assert out.union.union == 0.75
    assert out.union.gain.gain == 0.0
    # equally strong: A stands for the stronger
    assert out.union.gain_over_stronger.gain == 0.25
    # gains -1/2 and +1/2: a mean square of 1/4
    assert out.strength.difference.difference == 0.0
    assert out.strength.min_detectable == min_detectable_difference(2, 0.25)


def test_each_number_is_that_of_its_own_function(answers):
    rng = np.random.default_rng(0)
    chances = rng.random((60, 2))
    a, b = (drawn(rng, chances[:, player], 3) for player in (0, 1))
    out = compare_singles({"A": answers(a), "B": answers(b)}, seed=4)
    assert out.players["A"].interval == accuracy_interval(a, seed=4)
    assert out.union.gain.gain == pytest.approx(complementarity_gain(a, b))
    everything = complementarity(
        [x for row in a for x in row for _ in range(3)], [y for row in b for _ in range(3) for y in row]
    )
    assert out.overlap["A-B"].measures == everything
    assert out.overlap["A-B"].intervals["rho"].low < everything.rho < out.overlap["A-B"].intervals["rho"].high
    json.dumps(asdict(out), allow_nan=False)


def test_two_copies_of_one_adapter_overlap_as_each_does_with_itself(answers):
    rng = np.random.default_rng(1)
    chances = rng.beta(0.7, 0.7, 400)
    out = compare_singles({"A": answers(drawn(rng, chances, 4)), "B": answers(drawn(rng, chances, 4))}, seed=0)
    rhos = {name: overlap.measures.rho for name, overlap in out.overlap.items()}
    # The null of a rho between two adapters is not 1, and not 0: it is an adapter's own.
    assert rhos["A-B"] == pytest.approx(rhos["A-A"], abs=0.07)
    assert 0.3 < rhos["A-A"] < 0.6
    interval = out.union.gain.interval
    assert interval.low < 0 < interval.high


def test_the_stronger_is_found_whichever_it_is(answers):
    a, b = [[1, 1], [1, 1], [1, 0]], [[1, 1], [0, 0], [0, 0]]
    weak_b = compare_singles({"A": answers(a), "B": answers(b)}, seed=0)
    weak_a = compare_singles({"A": answers(b), "B": answers(a)}, seed=0)
    assert weak_b.strength.difference.difference == pytest.approx(-0.5)
    assert weak_a.union.gain_over_stronger == weak_b.union.gain_over_stronger
    # union 1, 1, 1/2 against the stronger's pass@2 of 1, 1, 1
    assert weak_b.union.gain_over_stronger.gain == pytest.approx(-1 / 6)
