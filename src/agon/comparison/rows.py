"""From evaluations to rows: one arm in one protocol, over its seeds, in each direction, their mean, and the chosen one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agon.comparison.arms import PlannedArm
from agon.comparison.collect import Measured, Training
from agon.comparison.directions import chosen_direction, unmeasured_choices
from agon.comparison.records import BASE_ARM, BASE_TITLE, Row, SeedResult, Tokens
from agon.comparison.variants import Variant, changed_caps, players_of, variant_of
from agon.records import DIRECTIONS, PROTOCOLS
from agon.stats import Answers, Interval, accuracy_interval, nested_interval, seed_spread

_PLAYERS = ("a", "b", "base")
_COUNTED = ("conversion", "regression", "blind_second")


@dataclass(frozen=True, slots=True)
class SeedCell:
    """One training (or the base) in a row: its evaluations (two for a mean of directions) and each problem's answers in them.

    `chosen` is the direction that development problems chose for it, where that is known.
    """

    training: Training | None
    parts: tuple[Measured, ...]
    direction: str | None
    chosen: str | None = None

    @property
    def answers(self) -> Answers:
        """Right and wrong by problem, the samples of all parts together."""
        if len(self.parts) == 1:
            return self.parts[0].correct
        return {name: [value for part in self.parts for value in part.correct[name]] for name in self.parts[0].correct}

    @property
    def accuracy(self) -> float:
        """Mean over parts, problems and samples."""
        values = [value for part in self.parts for samples in part.correct.values() for value in samples]
        return sum(values) / len(values)


class BuiltRow(NamedTuple):
    """A row with the answers it was counted from, one mapping a seed, for tests on the same problems."""

    row: Row
    answers: list[Answers]


def build_rows(
    arms: Sequence[PlannedArm], measured: Sequence[Measured], *, protocols: Sequence[str] | None, seed: int
) -> tuple[list[BuiltRow], list[str]]:
    """Return every row of every arm, the base first, and notes on evaluations that could not be told apart or
    are not those of the chosen direction.

    `seed` names the streams of the bootstraps.
    """
    notes: list[str] = []
    base = [item for item in measured if item.training is None]
    rows = _rows_of(BASE_ARM, BASE_TITLE, (None,), measured=_first_folder(base, notes), protocols=protocols, seed=seed)
    for arm in arms:
        runs = {training.run for training in arm.trainings}
        own = [item for item in measured if item.training is not None and item.training.run in runs]
        rows += _rows_of(arm.name, arm.title, arm.trainings, measured=own, protocols=protocols, seed=seed)
        notes += unmeasured_choices(arm.name, arm.trainings, own, protocols=protocols)
    return rows, notes


def _first_folder(base: Sequence[Measured], notes: list[str]) -> list[Measured]:
    """Keep one folder's measurements of the base where several hold the same one."""
    found: dict[tuple[Variant, str], Measured] = {}
    dropped: list[str] = []
    for item in base:
        key = variant_of(item), players_of(item)
        if found.setdefault(key, item).run != item.run:
            dropped.append(item.place)
    if dropped:
        notes.append(f"the base was measured more than once; left out: {', '.join(dropped)}")
    return [item for item in base if item.place not in dropped]


def _rows_of(
    arm: str,
    title: str,
    trainings: Sequence[Training | None],
    *,
    measured: Sequence[Measured],
    protocols: Sequence[str] | None,
    seed: int,
) -> list[BuiltRow]:
    cells = _cells(trainings, measured)
    rows: list[BuiltRow] = []
    for variant in sorted({variant for variant, _ in cells}, key=_order):
        if protocols is not None and variant.protocol not in protocols:
            continue
        for who in _everyone(who for other, who in cells if other == variant):
            rows.append(_row(variant, who, cells[variant, who], arm=arm, title=title, seed=seed))
    return rows


def _cells(
    trainings: Sequence[Training | None], measured: Sequence[Measured]
) -> dict[tuple[Variant, str], list[SeedCell]]:
    """Put every training's evaluations in their rows; a mean and a chosen direction follow from the two directions."""
    cells: dict[tuple[Variant, str], list[SeedCell]] = {}
    for training in sorted(trainings, key=lambda item: -1 if item is None or item.seed is None else item.seed):
        own = [item for item in measured if item.training is training]
        found: dict[tuple[Variant, str], Measured] = {}
        # The default label is the shortest: it is the one that other runs have too. Other caps than in training never are the default.
        for item in sorted(own, key=lambda item: (bool(changed_caps(item)), len(item.label), item.label)):
            variant, who = variant_of(item), players_of(item)
            taken = (variant, who) in found
            found[(variant._replace(label=item.label) if taken else variant), who] = item
        for (variant, who), item in found.items():
            chosen = None if item.direction is None else chosen_direction(own, variant)
            cells.setdefault((variant, who), []).append(SeedCell(training, (item,), item.direction, chosen))
            if chosen is not None and who == chosen:
                cells.setdefault((variant, "chosen"), []).append(SeedCell(training, (item,), who))
            other = found.get((variant, {"a-b": "b-a", "a": "b"}.get(who, "")))
            if other is not None:
                cells.setdefault((variant, "mean"), []).append(SeedCell(training, (item, other), None))
    return cells


def _everyone(found: Iterable[str]) -> list[str]:
    """Order the players of one protocol: each adapter, each direction, then their mean and the chosen one."""
    order = (*_PLAYERS, *DIRECTIONS)
    last = ("mean", "chosen")
    names = set(found)
    others = sorted(names - {*order, *last})
    return [name for name in (*order, *others, *last) if name in names]


def _order(variant: Variant) -> tuple[int, int, bool, tuple[tuple[str, str], ...], str]:
    known = PROTOCOLS.index(variant.protocol) if variant.protocol in PROTOCOLS else len(PROTOCOLS)
    return known, variant.drafts, variant.has_doubled_cap, variant.changed, variant.label


def _row(variant: Variant, who: str, cells: Sequence[SeedCell], *, arm: str, title: str, seed: int) -> BuiltRow:
    answers = [cell.answers for cell in cells]
    interval = nested_interval(answers, seed=seed)
    parts = [part for cell in cells for part in cell.parts]
    trainings = [cell.training for cell in cells if cell.training is not None]
    seeds = [training.seed for training in trainings]
    accuracies = [cell.accuracy for cell in cells]
    ending = f":{variant.ending}" if variant.ending else ""
    rates, counted = _rates(parts)
    is_directed = parts[0].direction is not None
    choices = {cell.chosen for cell in cells if cell.chosen is not None}
    row = Row(
        id=f"{arm}:{variant.name}:{who}{ending}",
        arm=arm,
        title=title,
        protocol=variant.protocol,
        who=who,
        direction=who if is_directed else None,
        drafts=variant.drafts,
        seeds=tuple(number for number in seeds if number is not None),
        n=len(answers[0]),
        samples=parts[0].samples,
        accuracy=sum(accuracies) / len(accuracies),
        interval=interval,
        interval_kind=interval.kind,
        seed_sd=seed_spread(accuracies).sd,
        per_seed=tuple(
            _seed_result(cell, own, accuracy, seed=seed)
            for cell, own, accuracy in zip(cells, answers, accuracies, strict=True)
        ),
        tokens=_tokens(parts),
        truncated_share=_mean(_numbers(part.result.get("truncated_share") for part in parts)),
        dead_group_share=_mean(_numbers(training.mean_of_streams("dead_group_share") for training in trainings)),
        revived_group_share=_mean(_numbers(training.mean_of_streams("revived_group_share") for training in trainings)),
        conversion=rates["conversion"],
        regression=rates["regression"],
        copy=_mean(_numbers(part.result.get("copy_rate") for part in parts)),
        leak=_mean(_numbers(part.result.get("leak_rate") for part in parts)),
        blind_second=rates["blind_second"],
        counted=counted,
        latency_s=_mean(_numbers(part.result.get("latency_s") for part in parts)),
        label=variant.ending,
        has_doubled_cap=variant.has_doubled_cap,
        changed=dict(variant.changed),
        is_unchosen=who in DIRECTIONS and bool(choices) and who not in choices,
        notes=tuple(dict.fromkeys(str(note) for part in parts for note in part.result.get("notes") or ())),
    )
    return BuiltRow(row, answers)


def _seed_result(cell: SeedCell, answers: Answers, accuracy: float, *, seed: int) -> SeedResult:
    interval: Interval = accuracy_interval(list(answers.values()), seed=seed)
    first = cell.parts[0]
    return SeedResult(
        seed=cell.training.seed if cell.training is not None else None,
        accuracy=accuracy,
        interval=interval,
        run=first.run,
        labels=tuple(part.label for part in cell.parts),
        direction=cell.direction,
    )


def _tokens(parts: Sequence[Measured]) -> Tokens:
    """Average the token ledgers; prompt tokens are all that were read less the summaries."""

    def mean(name: str) -> float:
        return _mean([float(part.result["tokens"].get(name, 0.0)) for part in parts]) or 0.0

    summaries, read = mean("summary_prefill"), mean("prefill_total")
    return Tokens(
        draft=mean("draft"),
        challenge=mean("challenge"),
        summary_prefill=summaries,
        prompt_prefill=max(0.0, read - summaries),
        prefill_total=read,
        total=mean("total"),
    )


def _rates(parts: Sequence[Measured]) -> tuple[dict[str, float | None], dict[str, int]]:
    """Pool rates over all matches they are shares of, where every part says how many; else average them."""
    rates: dict[str, float | None] = {}
    counted: dict[str, int] = {}
    for name in _COUNTED:
        pairs = [(value, _count(part.result, name)) for part in parts if (value := part.result.get(name)) is not None]
        total = sum(count for _, count in pairs if count is not None)
        if pairs and total and all(count is not None for _, count in pairs):
            rates[name] = sum(value * count for value, count in pairs if count is not None) / total
            counted[name] = total
        else:
            rates[name] = _mean([value for value, _ in pairs])
    return rates, counted


def _count(result: Mapping[str, Any], name: str) -> int | None:
    interval = (result.get("intervals") or {}).get(name)
    count = interval.get("n") if isinstance(interval, Mapping) else None
    return count if isinstance(count, int) else None


def _numbers(values: Iterable[Any]) -> list[float]:
    return [value for value in values if isinstance(value, int | float)]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
