"""Two panels of few arms: competition x exchange, and initialisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agon.comparison.arms import PlannedArm
from agon.comparison.headline import best_of
from agon.comparison.records import Effect, InitRow, Panel2x2, PanelCell, Row
from agon.comparison.rows import BuiltRow
from agon.stats import Answers, Interval, nested_difference

# The arms that may stand in each cell, the truest first: one adapter of `grpo` learns from all the rollouts that a pair shares.
_CELLS = (
    (("independent", "grpo"), False, False),
    (("shared-hidden",), True, False),
    (("cooperative",), False, True),
    (("agon",), True, True),
)
_INIT_KEYS = ("adapter.init", "adapter.noise_kl")


def panel_2x2(built: Sequence[BuiltRow], *, seed: int) -> Panel2x2 | None:
    """Return the four arms that differ in competition and in exchange alone; None where none of the last three was measured.

    Neither is two adapters that never meet (`independent`), which learn from as many rollouts each as a pair's; where these were not
    measured, `grpo`, whose one adapter has all of them, so that contrasts with it hold what halving costs, too.
    Without exchange there is one pass: single answers, the mean of both adapters where two were trained. A shared hidden rival's
    draft then pays the bonus, which is inert where the reward is standardised in the group (docs/methods.md). With exchange it is
    the cascade, which also spends a second stage's tokens.
    """
    found = [
        _first_measured(built, arms, "cascade" if exchange else "single") for arms, _competition, exchange in _CELLS
    ]
    if all(item is None for item in found[1:]):
        return None
    cells = tuple(
        PanelCell(
            competition, exchange, arms[-1] if item is None else item.row.arm, None if item is None else item.row.id
        )
        for (arms, competition, exchange), item in zip(_CELLS, found, strict=True)
    )
    measured = [item for item in found if item is not None]
    # A contrast has no room to say that one of its cells stands in the wrong direction.
    if len(measured) < len(_CELLS) or any(item.row.is_unchosen for item in measured):
        return Panel2x2(cells)
    plain, competing, exchanging, both = (item.answers for item in measured)
    effects = (
        _effect("exchange without competition", plain, exchanging, seed=seed),
        _effect("exchange with competition", competing, both, seed=seed),
        _effect("competition without exchange", plain, competing, seed=seed),
        _effect("competition with exchange", exchanging, both, seed=seed),
        _interaction(plain=plain, competing=competing, exchanging=exchanging, both=both, seed=seed),
    )
    return Panel2x2(cells, effects)


def why_no_contrasts(panel: Panel2x2 | None, rows: Sequence[Row]) -> list[str]:
    """Say in a note why a panel has no contrasts although all its cells were measured; nothing otherwise."""
    if panel is None or panel.effects or any(cell.row is None for cell in panel.cells):
        return []
    unchosen = {row.id for row in rows if row.is_unchosen}
    arms = ", ".join(cell.arm for cell in panel.cells if cell.row in unchosen)
    return [f"contrasts of competition and exchange are left out: the chosen direction was not measured of {arms}"]


def init_panel(arms: Sequence[PlannedArm], headlines: Mapping[str, BuiltRow]) -> tuple[InitRow, ...]:
    """Return the arms that were trained for their initialisation: a matrix's group `init`, or arms named by how adapters start."""
    return tuple(
        InitRow(
            arm=arm.name,
            title=arm.title,
            row=headlines[arm.name].row.id if arm.name in headlines else None,
            settings=arm.settings,
            distance_first=_mean([training.distances[0] for training in arm.trainings if training.distances]),
            distance_last=_mean([training.distances[-1] for training in arm.trainings if training.distances]),
        )
        for arm in arms
        if arm.group == "init" or any(key in arm.settings for key in _INIT_KEYS)
    )


def _first_measured(built: Sequence[BuiltRow], arms: Sequence[str], protocol: str) -> BuiltRow | None:
    for name in arms:
        rows = [item for item in built if item.row.arm == name]
        own = [item for item in rows if not (item.row.has_doubled_cap or item.row.changed)]
        best = best_of([item.row for item in own], protocol)
        if best is not None:
            return next(item for item in own if item.row.id == best.id)
    return None


def _effect(name: str, before: Sequence[Answers], after: Sequence[Answers], *, seed: int) -> Effect:
    found = nested_difference(before, after, seed=seed)
    return Effect(name, found.difference, found.interval)


def _interaction(
    *,
    plain: Sequence[Answers],
    competing: Sequence[Answers],
    exchanging: Sequence[Answers],
    both: Sequence[Answers],
    seed: int,
) -> Effect:
    """Return (both - exchanging) - (competing - plain) = (both + plain) - (competing + exchanging).

    Each bracket is twice the mean of two methods. Their runs are independent, so that the k-th run of one may stand beside the k-th
    of the other; runs beyond the number that all four have are left out.
    """
    num_runs = min(map(len, (plain, competing, exchanging, both)))
    plain, competing, exchanging, both = (runs[:num_runs] for runs in (plain, competing, exchanging, both))
    found = nested_difference(_together(competing, exchanging), _together(both, plain), seed=seed)
    low, high = 2 * found.interval.low, 2 * found.interval.high
    interval = Interval(low, high, found.interval.level, found.interval.kind, found.interval.unit)
    return Effect("interaction", 2 * found.difference, interval)


def _together(first: Sequence[Answers], second: Sequence[Answers]) -> list[Answers]:
    """Put the runs of two methods side by side, each counting half whatever its number of samples."""
    return [
        {name: [*a[name]] * len(b[name]) + [*b[name]] * len(a[name]) for name in a}
        for a, b in zip(first, second, strict=True)
    ]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
