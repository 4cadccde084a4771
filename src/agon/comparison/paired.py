"""Every arm against its rivals on the same problems: difference, interval, p for the whole family, and what could have been seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agon.comparison.records import PairedTest
from agon.comparison.rows import BuiltRow
from agon.stats import (
    NestedDifference,
    holm,
    mcnemar_exact,
    min_detectable_difference,
    nested_difference,
)


def paired_tests(headlines: Sequence[BuiltRow], rivals: Mapping[str, BuiltRow], *, seed: int) -> list[PairedTest]:
    """Test every headline row against every rival. `rivals` are rows by the name of their family's rival.

    The tests against one rival are a family: Holm's correction goes over them.
    """
    tests: list[PairedTest] = []
    for name, rival in rivals.items():
        family = [_test(own, rival, family=family_of(name), seed=seed) for own in headlines if not _is_same(own, rival)]
        adjusted = holm([test.p for test in family])
        tests += [replace(test, p_holm=p_holm) for test, p_holm in zip(family, adjusted, strict=True)]
    return tests


def family_of(rival: str) -> str:
    """Name the family of the tests against a rival."""
    return f"against {rival}"


def _is_same(own: BuiltRow, rival: BuiltRow) -> bool:
    """Tell whether two rows are one: the same row, or those of two arms that share an evaluation."""
    first, second = ([(item.run, item.labels) for item in built.row.per_seed] for built in (own, rival))
    return first == second or (own.row.arm != rival.row.arm and not set(first).isdisjoint(second))


def _test(own: BuiltRow, rival: BuiltRow, *, family: str, seed: int) -> PairedTest:
    found = nested_difference(rival.answers, own.answers, seed=seed)
    kind = _kind(own, rival)
    return PairedTest(
        first=own.row.id,
        second=rival.row.id,
        kind=kind,
        n=found.n,
        seeds=(len(own.answers), len(rival.answers)),
        difference=found.difference,
        interval=found.interval,
        p=mcnemar_exact(found.wins, found.losses) if kind == "mcnemar-exact" else found.p,
        p_holm=1.0,
        family=family,
        wins=found.wins,
        losses=found.losses,
        min_detectable=_min_detectable(found),
    )


def _kind(own: BuiltRow, rival: BuiltRow) -> str:
    if len(own.answers) > 1 or len(rival.answers) > 1:
        return "paired-nested-bootstrap"
    answers = (*own.answers[0].values(), *rival.answers[0].values())
    return "mcnemar-exact" if all(len(samples) == 1 for samples in answers) else "paired-bootstrap"


def _min_detectable(found: NestedDifference) -> float | None:
    """Return the smallest difference that this very test would show: its problems, the seeds' spread, its degrees of freedom."""
    # One pair of "runs" whose difference has just the variance that the seeds of both add to this one.
    spread = math.sqrt(found.seed_variance / 2)
    return min_detectable_difference(found.n, found.discordance, seed_sd=spread, df=found.df)
