"""What a comparison could have seen, before one trusts that it saw nothing.

The model is a paired comparison of two methods on the same problems. `discordance` is the mean squared gain of a problem: with
one run a method and one sample a problem, the share of problems that exactly one of the two solves. `seed_sd` is the run-to-run
SD of one method's true accuracy, which no number of problems makes smaller; 0 leaves training noise out, and the answer then
speaks of these runs and not of the methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import root_scalar
from scipy.special import ndtri, stdtrit

DEFAULT_POWER = 0.8
DEFAULT_ALPHA = 0.05
_MOST_PROBLEMS = 10**9


def min_detectable_difference(
    n: int,
    discordance: float,
    *,
    num_seeds: int = 1,
    seed_sd: float = 0.0,
    df: float | None = None,
    alpha: float = DEFAULT_ALPHA,
    power: float = DEFAULT_POWER,
) -> float | None:
    """Return the true difference in accuracy that a two-sided test on `n` problems finds with probability `power`.

    None where no difference that the discordance allows would be found. Smaller differences may well be there: a test that
    found nothing has not excluded them. `df` are the degrees of freedom with which the test was made, if it was: few seeds leave
    few, whether or not a spread between them was seen, and a test that has to allow for 4 sees a third less than one with many.

    Raises:
        ValueError: n or num_seeds below 1, a discordance outside 0..1, a negative seed_sd, or a df that is not positive.
    """
    _check(discordance, num_seeds, seed_sd)
    if n < 1:
        raise ValueError(f"{n} problems: a comparison needs at least one")
    if df is not None and df <= 0.0:
        raise ValueError(f"{df} degrees of freedom: a test has more than none")
    shortfall = _shortfall(discordance, num_seeds, seed_sd, alpha, power, df=df)
    most = math.sqrt(discordance)
    if discordance == 0.0 or shortfall(most, n) > 0.0:
        return None
    return _root(lambda difference: shortfall(difference, n), 0.0, most)


def problems_needed(
    difference: float,
    discordance: float,
    *,
    num_seeds: int = 1,
    seed_sd: float = 0.0,
    alpha: float = DEFAULT_ALPHA,
    power: float = DEFAULT_POWER,
) -> int | None:
    """Return how many problems a two-sided test needs to find `difference` with probability `power`.

    None where no number would do, because the seeds' spread alone hides the difference: train more seeds.

    Raises:
        ValueError: a difference of 0, or one larger than the discordance allows; else as `min_detectable_difference`.
    Paper: Connor, "Sample Size for Testing Differences in Proportions for the Paired-Sample Design", Biometrics 43 (1987), which
        this equals at seed_sd = 0.
    """
    _check(discordance, num_seeds, seed_sd)
    difference = abs(difference)
    if not 0.0 < difference**2 <= discordance:
        raise ValueError(f"a difference of {difference} needs a discordance of {difference**2:.3g} or more")
    shortfall = _shortfall(discordance, num_seeds, seed_sd, alpha, power)
    if shortfall(difference, _MOST_PROBLEMS) > 0.0:
        return None
    if shortfall(difference, 1) <= 0.0:
        return 1
    return math.ceil(_root(lambda n: shortfall(difference, n), 1.0, _MOST_PROBLEMS))


def better_of_two_inflation(standard_error: float, correlation: float) -> float:
    """Return by how much the better of two equally good directions, chosen on the test problems, looks better than it is.

    The expected maximum of two normal measurements with this standard error and correlation is se * sqrt((1 - rho) / pi) above
    their mean.

    Raises:
        ValueError: a negative standard error, or a correlation outside -1..1.
    """
    if standard_error < 0.0 or not -1.0 <= correlation <= 1.0:
        raise ValueError(f"standard error {standard_error} must not be negative, correlation {correlation} be in -1..1")
    return standard_error * math.sqrt((1.0 - correlation) / math.pi)


def _shortfall(
    discordance: float, num_seeds: int, seed_sd: float, alpha: float, power: float, *, df: float | None = None
) -> Callable[[float, float], float]:
    """Return a function of difference and n: by how much the difference needed for the power exceeds that difference."""
    of_seeds = 2.0 * seed_sd**2 / num_seeds

    def shortfall(difference: float, n: float) -> float:
        null = discordance / n + of_seeds
        # Under the alternative the variance of a problem's gain is the mean square less the squared mean.
        alternative = max(discordance - difference**2, 0.0) / n + of_seeds
        reject, reach = _quantiles(_df(null, of_seeds, num_seeds) if df is None else df, alpha, power)
        return reject * math.sqrt(null) + reach * math.sqrt(alternative) - difference

    return shortfall


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(root_scalar(function, bracket=(low, high), method="brentq", xtol=1e-9).root)


def _df(variance: float, of_seeds: float, num_seeds: int) -> float | None:
    """Satterthwaite's degrees of freedom where the spread has to be estimated from the seeds themselves; None: as good as known."""
    return None if of_seeds == 0.0 or num_seeds == 1 else variance**2 * 2 * (num_seeds - 1) / of_seeds**2


def _quantiles(df: float | None, alpha: float, power: float) -> tuple[float, float]:
    if df is None:
        return float(ndtri(1.0 - alpha / 2)), float(ndtri(power))
    return float(stdtrit(df, 1.0 - alpha / 2)), float(stdtrit(df, power))


def _check(discordance: float, num_seeds: int, seed_sd: float) -> None:
    if not 0.0 <= discordance <= 1.0:
        raise ValueError(f"discordance {discordance} must be between 0 and 1")
    if num_seeds < 1:
        raise ValueError(f"{num_seeds} seeds: a method needs at least one run")
    if seed_sd < 0.0:
        raise ValueError(f"a seed SD of {seed_sd} must not be negative")
