"""Intervals, tests and estimators; numpy and scipy only, without scipy.stats, which takes half a second to load."""

from agon.stats.complementarity import (
    Complementarity,
    Gain,
    complementarity,
    complementarity_from_counts,
    complementarity_gain,
    complementarity_intervals,
    union_gain,
)
from agon.stats.families import holm
from agon.stats.intervals import Interval, accuracy_interval, clopper_pearson, cluster_bootstrap
from agon.stats.nested import Answers, NestedDifference, nested_difference, nested_interval, seed_variance
from agon.stats.paired import Aligned, PairedDifference, align, mcnemar_exact, paired_difference
from agon.stats.passk import avg_at_k, pass_at_k
from agon.stats.power import better_of_two_inflation, min_detectable_difference, problems_needed
from agon.stats.seeds import Spread, seed_spread

__all__ = [
    "Aligned",
    "Answers",
    "Complementarity",
    "Gain",
    "Interval",
    "NestedDifference",
    "PairedDifference",
    "Spread",
    "accuracy_interval",
    "align",
    "avg_at_k",
    "better_of_two_inflation",
    "clopper_pearson",
    "cluster_bootstrap",
    "complementarity",
    "complementarity_from_counts",
    "complementarity_gain",
    "complementarity_intervals",
    "holm",
    "mcnemar_exact",
    "min_detectable_difference",
    "nested_difference",
    "nested_interval",
    "paired_difference",
    "pass_at_k",
    "problems_needed",
    "seed_spread",
    "seed_variance",
    "union_gain",
]
