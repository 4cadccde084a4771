"""Intervals, tests and estimators; numpy and scipy only."""

from agon.stats.complementarity import (
    Complementarity,
    complementarity,
    complementarity_from_counts,
    complementarity_gain,
)
from agon.stats.intervals import Interval, accuracy_interval, clopper_pearson, cluster_bootstrap
from agon.stats.paired import Aligned, PairedDifference, align, mcnemar_exact, paired_difference
from agon.stats.passk import pass_at_k

__all__ = [
    "Aligned",
    "Complementarity",
    "Interval",
    "PairedDifference",
    "accuracy_interval",
    "align",
    "clopper_pearson",
    "cluster_bootstrap",
    "complementarity",
    "complementarity_from_counts",
    "complementarity_gain",
    "mcnemar_exact",
    "paired_difference",
    "pass_at_k",
]
