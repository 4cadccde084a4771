import numpy as np
import pytest
from scipy.stats import t

from agon.comparison.arms import plan_arms
from agon.comparison.collect import collect
from agon.comparison.paired import paired_tests
from agon.comparison.rows import build_rows


def built_of(*paths):
    collected = collect(paths)
    built, _ = build_rows(plan_arms(collected), collected.measured, protocols=None, seed=1)
    return built


def single(fake, path, method, marks, *, seed=0):
    run = fake.run(path, method, seed=seed)
    fake.evaluate(run, "single", marks, method=method)
    return run


def test_one_training_and_one_sample_each_are_tested_exactly(fake, tmp_path):
    # Of 10 problems the first solves 7, the rival 2 of those and 1 other: 5 wins, 1 loss.
    runs = [single(fake, tmp_path / "a", "agon", "1111111000"), single(fake, tmp_path / "b", "grpo", "1100000100")]
    first, rival = built_of(*runs)
    (test,) = paired_tests([first, rival], {"grpo": rival}, seed=1)
    assert (test.first, test.second, test.family) == ("agon:single:a", "grpo:single:a", "against grpo")
    assert (test.kind, test.n, test.seeds) == ("mcnemar-exact", 10, (1, 1))
    assert (test.wins, test.losses) == (5, 1)
    assert test.difference == pytest.approx(0.4)
    # two-sided sign test of 5 against 1: 2 (1 + 6) / 2^6
    assert test.p == pytest.approx(14 / 64)
    assert test.interval.low < 0.4 < test.interval.high
    assert test.interval.unit == "problem"


def test_holm_goes_over_the_tests_against_one_rival(fake, tmp_path):
    marks = {"grpo": "0000000000", "agon": "1111111000", "cooperative": "1111000000", "margin": "1000000000"}
    built = built_of(*(single(fake, tmp_path / name, name, own) for name, own in marks.items()))
    rivals = {item.row.arm: item for item in built if item.row.arm in ("grpo", "margin")}
    tests = {(test.first.split(":")[0], test.family): test for test in paired_tests(built, rivals, seed=1)}
    assert len(tests) == 6
    against = {name: tests[name, "against grpo"] for name in ("agon", "cooperative", "margin")}
    # 7:0, 4:0 and 1:0 give p = 2/2^7, 2/2^4 and 1; Holm multiplies them by 3, 2 and 1.
    assert [against[name].p for name in against] == pytest.approx([1 / 64, 1 / 8, 1.0])
    assert [against[name].p_holm for name in against] == pytest.approx([3 / 64, 2 / 8, 1.0])
    assert [against[name].is_significant for name in against] == [True, False, False]


def test_the_smallest_difference_that_could_be_seen_stands_beside_every_test(fake, tmp_path):
    # 120 problems, 42 of them discordant (35 %), 30 to 12: the table of docs/statistics.md gives n = 120 for a difference of .15.
    first = "1" * 30 + "0" * 12 + "1" * 78
    second = "0" * 30 + "1" * 12 + "1" * 78
    own, rival = built_of(single(fake, tmp_path / "a", "agon", first), single(fake, tmp_path / "b", "grpo", second))
    (test,) = paired_tests([own], {"grpo": rival}, seed=1)
    assert test.difference == pytest.approx(0.15)
    assert test.min_detectable == pytest.approx(0.15, abs=1e-3)


def test_what_could_be_seen_goes_by_the_degrees_of_freedom_of_the_test_itself(fake, tmp_path):
    # Three runs of 6, 8 and 7 of 12, and a base of one run: a spread of seeds that the chance of single answers explains.
    marks = ("111000111000", "111111110000", "110110110100")
    runs = [single(fake, tmp_path / f"a{seed}", "agon", own, seed=seed) for seed, own in enumerate(marks)]
    own, rival = built_of(*runs, single(fake, tmp_path / "b", "grpo", "000000110000"))
    (test,) = paired_tests([own], {"grpo": rival}, seed=1)
    table = np.array([[int(mark) for mark in row] for row in marks])
    gains = table.mean(axis=0) - np.array([int(mark) for mark in "000000110000"])
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    # MS_seed / (S P) = .00231 and MS_rest / (S P) = .00484: no component of seeds is left, but what was estimated costs freedom.
    between, noise, problems = table.mean(axis=1).var(ddof=1) / 3, (rest**2).sum() / 22 / 36, gains.var(ddof=1) / 12
    assert between < noise
    df = problems**2 / (between**2 / 2 + problems**2 / 11)
    assert df < 11
    assert test.p == pytest.approx(2 * t.sf(test.difference / np.sqrt(problems), df))
    null, seen = (gains**2).mean() / 12, test.min_detectable
    assert seen == pytest.approx(t.ppf(0.975, df) * np.sqrt(null) + t.ppf(0.8, df) * np.sqrt(null - seen**2 / 12))


def test_several_seeds_or_samples_are_compared_by_a_bootstrap(fake, tmp_path):
    runs = [
        *(single(fake, tmp_path / f"a{seed}", "agon", marks, seed=seed) for seed, marks in enumerate(("1110", "1111"))),
        single(fake, tmp_path / "b", "grpo", "1000"),
    ]
    own, rival = built_of(*runs)
    (test,) = paired_tests([own], {"grpo": rival}, seed=1)
    assert (test.kind, test.seeds) == ("paired-nested-bootstrap", (2, 1))
    # (3/4 + 4/4) / 2 - 1/4; better on problems 2 and 3 in both seeds, on 4 in one
    assert test.difference == pytest.approx(0.625)
    assert (test.wins, test.losses) == (3, 0)
    sampled = fake.run(tmp_path / "c", "margin")
    fake.evaluate(sampled, "single", {f"p{i:03d}": [True, i > 1] for i in range(4)}, method="margin")
    (other, _) = built_of(sampled, runs[2])
    assert paired_tests([other], {"grpo": rival}, seed=1)[0].kind == "paired-bootstrap"
