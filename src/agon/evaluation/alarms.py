"""What a pair can degenerate into, told from its rates. Each alarm compares with a null, and with a limit of an interval, not a mean.

A rate alone accuses nobody: a weak challenger gets right drafts wrong as often without reading them. So an alarm sounds only where
the exchange itself is the cause as far as the numbers can tell, and stays silent where the sample is too small to tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agon.evaluation.exchanged import Exchanged, Rate
from agon.model.divergence import Updates
from agon.records import Direction
from agon.stats import Gain, PairedDifference

AlarmName = Literal["copying", "always-disagreeing", "teacher-student", "dead-adapter"]

COPY_SHARE = 0.5
"""Lower limit of the copy rate from which a challenger repeats what it was shown more often than not."""
DISAGREEMENT_SHARE = 0.5
"""Lower limit of the regression rate from which a challenger turns right drafts into wrong answers more often than not."""
STRENGTH_GAP = 0.1
"""Difference in accuracy of the two singles from which one may be the other's teacher."""
DEAD_NORM_RATIO = 0.01
"""Norm of the smaller update over that of the larger, below which the smaller one does nothing beside it."""
DEAD_KL = 1e-5
"""KL to the base in nats a token, below which an adapter says what the base says: one token in 1,000 changes by 1 %."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """What has happened, to which direction (`a-b`) or adapter (`A`), and the numbers that say so."""

    name: AlarmName
    about: str
    message: str
    values: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Turn the alarm into plain JSON types."""
        return {"name": self.name, "about": self.about, "message": self.message, "values": dict(self.values)}


def copying(direction: Direction, found: Exchanged) -> Alarm | None:
    """Sound where wrong drafts' answers are repeated in at least `COPY_SHARE` of matches, and more often than by chance.

    Chance is how often the challenger's adapter gives the same wrong answer without reading.
    """
    says = "repeats the wrong answer it reads about"
    return _above_chance(
        "copying", direction, found.copy, blind=found.blind_copy, what="copy", says=says, least=COPY_SHARE
    )


def always_disagreeing(direction: Direction, found: Exchanged) -> Alarm | None:
    """Sound where right drafts are answered wrongly in at least `DISAGREEMENT_SHARE` of matches, and more often than without reading."""
    return _above_chance(
        "always-disagreeing",
        direction,
        found.regression,
        blind=found.blind_regression,
        what="regression",
        says="is wrong after a right draft",
        least=DISAGREEMENT_SHARE,
    )


def teacher_student(difference: PairedDifference, gain_over_stronger: Gain) -> Alarm | None:
    """Sound where one adapter is better by `STRENGTH_GAP` or more, and the other's sample adds less to it than a second of its own.

    `difference` is B's accuracy minus A's, `gain_over_stronger` the union of both less the stronger's pass@2. Zero must lie outside both
    intervals: two unequal adapters with different blind spots are a pair, not a teacher with a student.
    """
    gap, interval = difference.difference, difference.interval
    is_certain = interval.low > 0.0 or interval.high < 0.0
    if abs(gap) < STRENGTH_GAP or not is_certain or gain_over_stronger.interval.high >= 0.0:
        return None
    weaker, stronger = ("A", "B") if gap > 0.0 else ("B", "A")
    return Alarm(
        "teacher-student",
        weaker,
        f"{stronger} is right {abs(gap):.1%} more often, and one sample of {weaker} beside it solves "
        f"{-gain_over_stronger.gain:.1%} fewer problems than a second one of {stronger}",
        {"difference": gap, "gain_over_stronger": gain_over_stronger.gain, "threshold": STRENGTH_GAP},
    )


def dead_adapter(updates: Updates, kl_to_base: Mapping[str, float]) -> list[Alarm]:
    """Sound for each adapter whose update is nothing beside the other's, or that says what the base says.

    `kl_to_base` is each adapter's KL to the base on its own samples, in nats a token. A method with a frozen opponent is meant to have
    such an adapter; the alarm says so all the same.
    """
    norms = {"A": updates.norm_first, "B": updates.norm_second}
    largest = max(norms.values())
    alarms: list[Alarm] = []
    for name, norm in norms.items():
        ratio = norm / largest if largest > 0.0 else 0.0
        if ratio >= DEAD_NORM_RATIO and kl_to_base[name] >= DEAD_KL:
            continue
        message = f"{name} says what the base says: {kl_to_base[name]:.2g} nats a token from it, its update of norm {norm:.3g}"
        values = {"norm": norm, "norm_ratio": ratio, "kl_to_base": kl_to_base[name]}
        thresholds = {"norm_ratio_threshold": DEAD_NORM_RATIO, "kl_threshold": DEAD_KL}
        alarms.append(Alarm("dead-adapter", name, message, values | thresholds))
    return alarms


def _above_chance(
    name: AlarmName, direction: Direction, rate: Rate | None, *, blind: Rate | None, what: str, says: str, least: float
) -> Alarm | None:
    """Sound where a rate is surely `least` or more, and surely above what it is without reading."""
    chance = 0.0 if blind is None else blind.rate
    if rate is None or rate.interval.low < least or rate.interval.low <= chance:
        return None
    message = f"the challenger {says} in {_said(rate)} matches ({chance:.0%} without reading)"
    values = {what: rate.rate, "low": rate.interval.low, "blind": chance, "threshold": least}
    return Alarm(name, direction, message, values)


def _said(rate: Rate) -> str:
    return f"{rate.rate:.0%} [{rate.interval.low:.0%}, {rate.interval.high:.0%}] of {rate.n}"
