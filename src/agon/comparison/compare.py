"""Put runs side by side: read, check, count, test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agon.comparison.arms import PlannedArm, plan_arms, setting_notes
from agon.comparison.checks import comparable
from agon.comparison.collect import Collected, collect
from agon.comparison.headline import headline
from agon.comparison.ledger import frontier
from agon.comparison.paired import family_of, paired_tests
from agon.comparison.panels import init_panel, panel_2x2, why_no_contrasts
from agon.comparison.records import BASE_ARM, BASE_TITLE, Arm, ArmRun, Comparison, PairedTest
from agon.comparison.rows import BuiltRow, build_rows
from agon.errors import ConfigError

DEFAULT_RIVALS = ("cooperative", "grpo-doubled-cap")
_SEED = 0


def compare(
    paths: Sequence[Path],
    *,
    against: Sequence[str] = (),
    protocols: Sequence[str] = (),
    task: str | None = None,
    split: str | None = None,
) -> Comparison:
    """Compare the runs that the folders stand for: runs, parents of runs, matrices.

    `against` names the rivals that every arm is tested against, arms or rows by id (the mean of both directions is a row); by default
    those a matrix names, or cooperative exchange and GRPO with a doubled cap where they are there, or else the first arm. `protocols`
    keeps rows of these protocols only.

    Raises:
        RunError: a folder is no run, or damaged, or nothing in it was measured.
        DataError: runs that cannot be compared; says which and what to do.
        ConfigError: a rival or a protocol that is not there, or a rival that no other arm can be tested against.
    """
    collected = collect(paths)
    subject, measured, notes = comparable(collected.measured, task=task, split=split)
    seed = subject.evaluation_seed or _SEED
    planned = plan_arms(collected)
    built, more = build_rows(planned, measured, protocols=protocols or None, seed=seed)
    if not built:
        known = ", ".join(dict.fromkeys(str(item.result["protocol"]) for item in measured))
        raise ConfigError(f"nothing was measured in the protocol {', '.join(protocols)}; measured: {known}")
    headlines = _headlines(planned, built)
    rivals = _rivals(against, headlines, built, by_default=collected.rivals or DEFAULT_RIVALS)
    doubles = _doubles(planned)
    tested = [item for name, item in headlines.items() if name not in doubles]
    notes += [*more, *(_note_on_double(name, first, planned) for name, first in doubles.items())]
    notes += [*_notes_on_seeds(planned, headlines, collected.unmeasured), *setting_notes(planned), *_missing(collected)]
    tests = paired_tests(tested, rivals, seed=seed)
    _require_tests(against, tests)
    rows = tuple(item.row for item in built)
    panel = panel_2x2(built, seed=seed)
    notes += why_no_contrasts(panel, rows)
    return Comparison(
        subject=subject,
        arms=tuple(_arms(planned, headlines)),
        rows=rows,
        tests=tuple(tests),
        panel_2x2=panel,
        init_panel=init_panel(planned, headlines),
        frontier=frontier(rows),
        notes=tuple(dict.fromkeys(notes)),
    )


def _headlines(planned: Sequence[PlannedArm], built: Sequence[BuiltRow]) -> dict[str, BuiltRow]:
    """Return the row that stands for each arm that was measured, the base's first."""
    by_id = {item.row.id: item for item in built}
    found: dict[str, BuiltRow] = {}
    for arm in (None, *planned):
        name = BASE_ARM if arm is None else arm.name
        best = headline([item.row for item in built if item.row.arm == name], arm)
        if best is not None:
            found[name] = by_id[best.id]
    return found


def _doubles(planned: Sequence[PlannedArm]) -> dict[str, str]:
    """Return the arms with no run that another arm has not, with that arm: testing both would count runs twice."""
    runs = {arm.name: {training.run for training in arm.trainings} for arm in planned if arm.trainings}
    doubles: dict[str, str] = {}
    for name, own in runs.items():
        # Of arms with equal runs the first stays.
        larger = [other for other in runs if own < runs[other]] or [other for other in runs if own == runs[other]]
        if larger[0] != name:
            doubles[name] = larger[0]
    return doubles


def _note_on_double(name: str, first: str, planned: Sequence[PlannedArm]) -> str:
    counts = {arm.name: len(arm.trainings) for arm in planned}
    runs = "the same runs as" if counts[name] == counts[first] else f"{counts[name]} of the {counts[first]} runs of"
    return f"{name} stands for {runs} {first}"


def _notes_on_seeds(
    planned: Sequence[PlannedArm], headlines: Mapping[str, BuiltRow], unmeasured: Collection[str]
) -> list[str]:
    """Say which trainings of an arm are missing from the row it is tested by; of those without any evaluation another note tells."""
    notes: list[str] = []
    for arm in planned:
        if arm.name not in headlines:
            continue
        row = headlines[arm.name].row
        held = {item.run for item in row.per_seed}
        known = [training.run for training in arm.trainings if training.run not in unmeasured]
        missing = [run for run in known if run not in held]
        if missing:
            notes.append(
                f"{row.id} holds {len(held)} of {len(known)} measured trainings, and is what {arm.name} is tested by; "
                f"without: {', '.join(missing)}"
            )
    return notes


def _rivals(
    against: Sequence[str],
    headlines: Mapping[str, BuiltRow],
    built: Sequence[BuiltRow],
    *,
    by_default: Sequence[str],
) -> dict[str, BuiltRow]:
    by_id = {item.row.id: item for item in built}
    rivals: dict[str, BuiltRow] = {}
    for name in against:
        row = headlines.get(name) or by_id.get(name)
        if row is None:
            raise ConfigError(
                f"--against {name!r} is neither an arm nor a row of this comparison; {_nameable(name, headlines, by_id)}"
            )
        rivals[name] = row
    if against:
        return rivals
    names = [name for name in by_default if name in headlines]
    if not names:
        trained = [name for name in headlines if name != BASE_ARM]
        names = trained[:1] if len(headlines) > 1 else []
    return {name: headlines[name] for name in names}


def _nameable(name: str, headlines: Collection[str], rows: Collection[str]) -> str:
    """List what a rival can be: the arms, and the rows of the arm that a wrong name begins with."""
    # An arm's name may hold a colon, and begin as another's does.
    arm = max((arm for arm in headlines if f"{name}:".startswith(f"{arm}:")), key=len, default=None)
    arms = f"arms: {', '.join(headlines)}"
    if arm is None:
        return f"{arms}; or a row of one (ARM:PROTOCOL:WHO), such as {next(iter(rows))}"
    return f"{arms}; rows of {arm}: {', '.join(row for row in rows if row.startswith(f'{arm}:'))}"


def _require_tests(against: Sequence[str], tests: Sequence[PairedTest]) -> None:
    families = {test.family for test in tests}
    for name in against:
        if family_of(name) not in families:
            raise ConfigError(f"--against {name!r} tests nothing: no other arm is measured here")


def _arms(planned: Sequence[PlannedArm], headlines: Mapping[str, BuiltRow]) -> list[Arm]:
    arms = [
        Arm(
            name=arm.name,
            title=arm.title,
            method=arm.method,
            settings=dict(arm.settings),
            group=arm.group,
            runs=tuple(
                ArmRun(training.seed, training.run, training.steps, training.planned_steps, training.is_finished)
                for training in arm.trainings
            ),
            headline=headlines[arm.name].row.id if arm.name in headlines else None,
            rollouts_per_problem=_rollouts(arm),
        )
        for arm in planned
    ]
    if BASE_ARM in headlines:
        arms.insert(0, Arm(BASE_ARM, BASE_TITLE, None, headline=headlines[BASE_ARM].row.id))
    return arms


def _rollouts(arm: PlannedArm) -> float | None:
    values = [training.metrics.get("rollouts_per_problem") for training in arm.trainings]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _missing(collected: Collected) -> list[str]:
    notes = [f"{name} has not begun: it is missing here" for name in collected.waiting]
    return notes + [f"{name} has no evaluation: run `agon eval {name}`" for name in collected.unmeasured]
