import math

import numpy as np
import pytest
from scipy.stats import chi2
from statsmodels.stats.weightstats import DescrStatsW

from agon.stats import seed_spread


def test_three_seeds_worked_by_hand():
    # mean .42, deviations -.02 0 .02: SD sqrt(.0008 / 2) = .02; chi-square of 2 df has quantiles -2 ln(1 - q): .0506 and 7.378.
    out = seed_spread([0.40, 0.42, 0.44])
    assert out.sd == pytest.approx(0.02)
    assert out.n == 3
    low, high = (0.02 * math.sqrt(2 / (-2 * math.log(tail))) for tail in (0.025, 0.975))
    assert (out.interval.low, out.interval.high) == pytest.approx((low, high))
    assert (round(low / 0.02, 2), round(high / 0.02, 2)) == (0.52, 6.28)
    assert (out.interval.kind, out.interval.unit) == ("chi-square", "seed")


def test_it_holds_the_variances_that_statsmodels_does_not_reject():
    values = [0.31, 0.36, 0.29, 0.40, 0.35]
    out = seed_spread(values, level=0.9)
    for bound, tail in ((out.interval.low, "larger"), (out.interval.high, "smaller")):
        # At a 90 % limit the one-sided test of that variance has a p of 5 %.
        statistic = (len(values) - 1) * DescrStatsW(values, ddof=1).var / bound**2
        p = chi2.sf(statistic, 4) if tail == "larger" else chi2.cdf(statistic, 4)
        assert p == pytest.approx(0.05)


def test_the_interval_covers_the_true_spread_of_normal_seeds():
    rng = np.random.default_rng(0)
    intervals = [seed_spread(row).interval for row in rng.normal(0.5, 0.02, (2000, 3)).tolist()]
    # The standard error of a share of .95 in 2000 is .005.
    assert np.mean([row.low <= 0.02 <= row.high for row in intervals]) == pytest.approx(0.95, abs=0.015)


def test_one_seed_has_no_spread():
    out = seed_spread([0.4])
    assert (out.sd, out.interval, out.n) == (None, None, 1)
    assert out.to_json() == {"sd": None, "interval": None, "n": 1}


def test_equal_seeds_have_no_interval_rather_than_one_of_width_zero():
    # The sum of three .1 is not exactly .3: a rounding must not be taken for a spread.
    out = seed_spread([0.1, 0.1, 0.1])
    assert (out.sd, out.interval, out.n) == (0.0, None, 3)


def test_no_seeds_are_refused():
    with pytest.raises(ValueError, match="at least one run"):
        seed_spread([])
