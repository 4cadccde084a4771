from __future__ import annotations

import json

import pytest

from agon.evaluation.exchanged import exchanged


def test_rates_and_their_blind_counterparts_are_counted_on_the_same_matches(table):
    found = exchanged(
        *table(
            # draft, challenge, the challenger's own answer
            ("7", "1", "7"),  # converted; alone it gives the same wrong answer
            ("7", "7", "1"),  # copied; alone it is right
            (None, "1", "1"),  # converted; no answer to copy
            ("1", "1", "1"),
            ("1", "8", "9"),  # lost, and wrong alone
            ("1", "1", "9"),
        ),
        seed=0,
    )
    rates = {name: (row["rate"], row["n"]) for name, row in found.to_json().items() if name != "discernment"}
    assert rates == {
        "conversion": (pytest.approx(2 / 3), 3),
        "blind_conversion": (pytest.approx(2 / 3), 3),
        "copy": (1 / 2, 2),
        "blind_copy": (1 / 2, 2),
        "regression": (pytest.approx(1 / 3), 3),
        "blind_regression": (pytest.approx(2 / 3), 3),
        "leak": (0.0, 6),
    }
    # keeps 2 of 3 right drafts, drops 1 of 2 wrong answers
    assert found.discernment == pytest.approx((2 / 3 + 1 / 2) / 2)
    # 2 of 3, from scipy.stats.binomtest(2, 3).proportion_ci()
    assert found.conversion.interval.low == pytest.approx(0.0943, abs=5e-5)


def test_what_a_checker_failed_on_is_in_no_rate_but_its_summary_was_read(table, attempt, exchange):
    matches, alone = table(("7", "1", "7"), ("7", "1", "7"), ("7", "1", "7"))
    matches[0] = [exchange(attempt("7", outcome="error"), "1", has_leak=True)]
    alone[1] = [attempt("7", outcome="error")]
    found = exchanged(matches, alone, seed=0)
    assert (found.conversion.n, found.blind_conversion.n) == (1, 1)
    assert (found.leak.n, found.leak.rate) == (3, pytest.approx(1 / 3))


def test_nothing_to_count_is_none(table):
    found = exchanged(*table(("1", "1", "1")), seed=0)
    assert (found.conversion, found.copy, found.blind_conversion, found.discernment) == (None, None, None, None)
    json.dumps(found.to_json())


def test_samples_of_one_problem_are_one_cluster(table):
    matches, alone = table(("7", "1", "7"), ("7", "7", "1"), ("7", "1", "1"), ("7", "7", "7"))
    grouped = [matches[0] + matches[1], matches[2] + matches[3]]
    found = exchanged(grouped, [alone[0] + alone[1], alone[2] + alone[3]], seed=0)
    assert (found.conversion.n, found.conversion.interval.unit) == (4, "problem")
    # Both problems are right once in two: the exact interval of 1 of 2 problems, .0126 to .9874, not of 2 of 4.
    assert (found.conversion.interval.low, found.conversion.interval.high) == pytest.approx((0.0126, 0.9874), abs=1e-4)


def test_other_problems_beside_the_matches_are_refused(table):
    matches, alone = table(("7", "1", "7"), ("7", "1", "7"))
    with pytest.raises(ValueError, match="zip"):
        exchanged(matches, alone[:1], seed=0)
