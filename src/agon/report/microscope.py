"""Pairs under the microscope: what `microscope.json` of each run says, as two tables and a list of alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agon.errors import RunError
from agon.report.collect import Run
from agon.runs import read_json
from agon.runs.evaluations import MICROSCOPE_FILE, MICROSCOPE_FORMAT
from agon.secrecy import redact

Found = Mapping[str, Any]


class Value(NamedTuple):
    """A number with the interval it has in one examination, or the smallest and largest of several trainings."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A column: its heading, what stands below it, how its numbers are written, and where an examination holds it."""

    name: str
    detail: str
    form: str
    read: Callable[[Found], Value | None]


@dataclass(frozen=True, slots=True)
class Line:
    """One row of both tables."""

    title: str
    detail: str
    values: Mapping[str, Value | None]
    num_alarms: int


@dataclass(frozen=True, slots=True)
class Sounded:
    """An alarm of a pair, in how many of its examined trainings it sounded, and what it said in the first of them."""

    title: str
    name: str
    about: str
    message: str
    times: int
    of: int


@dataclass(frozen=True, slots=True)
class MicroscopeView:
    """Every pair (a mean over its trainings), every training where there are several, and the alarms. `conditions` says how was measured."""

    pairs: Sequence[Line]
    trainings: Sequence[Line]
    alarms: Sequence[Sounded]
    conditions: Sequence[str]
    num_examined: int
    num_runs: int


class Subject(NamedTuple):
    """Trainings that are shown as one row."""

    title: str
    runs: Sequence[tuple[int | None, Run]]


def microscope_view(subjects: Sequence[Subject]) -> MicroscopeView | None:
    """Return what the examined runs say; None where none was examined.

    Raises:
        RunError: an examination is damaged, or of another format version.
    """
    pairs: list[Line] = []
    trainings: list[Line] = []
    alarms: list[Sounded] = []
    conditions: dict[str, None] = {}
    for subject in subjects:
        examined = [(seed, found) for seed, run in subject.runs if (found := _read(run)) is not None]
        if not examined:
            continue
        lines = [_line(subject.title, seed, found) for seed, found in examined]
        trainings += lines
        pairs.append(lines[0] if len(lines) == 1 else _mean_line(subject.title, lines))
        alarms += _alarms(subject.title, [found for _, found in examined])
        conditions |= dict.fromkeys(_conditions(found) for _, found in examined)
    if not pairs:
        return None
    num_runs = sum(len(subject.runs) for subject in subjects)
    is_repeated = len(trainings) > len(pairs)
    return MicroscopeView(pairs, trainings if is_repeated else (), alarms, list(conditions), len(trainings), num_runs)


def _read(run: Run) -> Found | None:
    path = run.path / MICROSCOPE_FILE
    if not path.exists():
        return None
    found = redact(read_json(path))
    if found.get("format_version") != MICROSCOPE_FORMAT:
        raise RunError(
            f"{path} is of format version {found.get('format_version')!r}, this report reads {MICROSCOPE_FORMAT}: examine again"
        )
    try:
        for measure in (*DOING, *ALIKE):
            measure.read(found)
        _conditions(found)
        [(item["name"], item["about"], item["message"]) for item in found["alarms"]]
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise RunError(f"{path} is damaged ({error!r}): examine again, or remove the file") from None
    return found


def _conditions(found: Found) -> str:
    return (
        f"{found['n']} problems of {found['split']} ({found['task']}), {found['samples']} samples each, "
        f"temperature {found['temperature']:g}, {found['protocol']}"
    )


def _line(title: str, seed: int | None, found: Found) -> Line:
    values = {measure.name: measure.read(found) for measure in (*DOING, *ALIKE)}
    return Line(title, "" if seed is None else f"seed {seed}", values, len(found["alarms"]))


def _mean_line(title: str, lines: Sequence[Line]) -> Line:
    values: dict[str, Value | None] = {}
    for measure in (*DOING, *ALIKE):
        known = [value.value for line in lines if (value := line.values[measure.name]) is not None]
        values[measure.name] = Value(sum(known) / len(known), min(known), max(known)) if known else None
    return Line(title, f"{len(lines)} trainings", values, sum(line.num_alarms for line in lines))


def _alarms(title: str, examined: Sequence[Found]) -> list[Sounded]:
    sounded: dict[tuple[str, str], list[str]] = {}
    for found in examined:
        for item in found["alarms"]:
            sounded.setdefault((item["name"], item["about"]), []).append(item["message"])
    return [
        Sounded(title, name, about, messages[0], len(messages), len(examined))
        for (name, about), messages in sounded.items()
    ]


def _player(name: str) -> Callable[[Found], Value]:
    def read(found: Found) -> Value:
        player = found["singles"]["players"][name]
        return _with_interval(player["accuracy"], player["interval"])

    return read


def _strength(found: Found) -> Value:
    difference = found["singles"]["strength"]["difference"]
    return _with_interval(difference["difference"], difference["interval"])


def _gain(name: str) -> Callable[[Found], Value]:
    def read(found: Found) -> Value:
        gain = found["singles"]["union"][name]
        return _with_interval(gain["gain"], gain["interval"])

    return read


def _overlap(name: str) -> Callable[[Found], Value | None]:
    def read(found: Found) -> Value | None:
        overlap = found["singles"]["overlap"]["A-B"]
        value = overlap["measures"][name]
        return None if value is None else _with_interval(value, overlap["intervals"].get(name))

    return read


def _overlap_within(name: str) -> Callable[[Found], Value | None]:
    """Read a measure of each adapter with further samples of itself, averaged over the two."""

    def read(found: Found) -> Value | None:
        return _mean([found["singles"]["overlap"][own]["measures"][name] for own in ("A-A", "B-B")])

    return read


def _excess(name: str) -> Callable[[Found], Value | None]:
    """Read a rate less what the challenger's adapter does without reading, averaged over the directions that have both."""

    def read(found: Found) -> Value | None:
        pairs = [(way[name], way[f"blind_{name}"]) for way in found["exchange"].values()]
        return _mean([rate["rate"] - blind["rate"] for rate, blind in pairs if rate is not None and blind is not None])

    return read


def _discernment(found: Found) -> Value | None:
    return _mean([direction["discernment"] for direction in found["exchange"].values()])


def _policy(text: str, first: str, second: str, name: str) -> Callable[[Found], Value]:
    def read(found: Found) -> Value:
        row = next(
            row for row in found["policies"] if (row["text"], row["first"], row["second"]) == (text, first, second)
        )
        return _with_interval(row[name], row["intervals"].get(name))

    return read


def _policy_mean(name: str) -> Callable[[Found], Value | None]:
    """Read a measure between A and B, averaged over the texts of the two."""

    def read(found: Found) -> Value | None:
        return _mean([_policy(text, "A", "B", name)(found).value for text in ("A", "B")])

    return read


def _update(name: str) -> Callable[[Found], Value | None]:
    def read(found: Found) -> Value | None:
        value = found["updates"][name]
        return None if value is None else Value(value)

    return read


def _outputs(name: str) -> Callable[[Found], Value | None]:
    def read(found: Found) -> Value | None:
        outputs = found["updates"]["outputs"]
        return None if outputs is None else Value(outputs[name])

    return read


def _with_interval(value: float, interval: Mapping[str, Any] | None) -> Value:
    return Value(value) if interval is None else Value(value, interval["low"], interval["high"])


def _mean(values: Sequence[float | None]) -> Value | None:
    known = [value for value in values if value is not None]
    return Value(sum(known) / len(known)) if known else None


DOING: tuple[Measure, ...] = (
    Measure("A alone", "pass@1", "share", _player("A")),
    Measure("B alone", "pass@1", "share", _player("B")),
    Measure("B − A", "paired", "signed", _strength),
    Measure("union", "one of each right", "share", lambda found: Value(found["singles"]["union"]["union"])),
    Measure("union − pass@2", "mean of both adapters'", "signed", _gain("gain")),
    Measure("union − stronger's", "pass@2", "signed", _gain("gain_over_stronger")),
    Measure("conversion − blind", "wrong → right", "signed", _excess("conversion")),
    Measure("regression − blind", "right → wrong", "signed", _excess("regression")),
    Measure("copies − blind", "of wrong answers", "signed", _excess("copy")),
    Measure("discernment", ".5: none", "share", _discernment),
)
"""What the two do: alone, together, and after reading each other (means of both directions)."""

ALIKE: tuple[Measure, ...] = (
    Measure("Q", "of A and B", "figures", _overlap("q")),
    Measure("rho", "of A and B", "figures", _overlap("rho")),
    Measure("error overlap", "Jaccard", "share", _overlap("error_jaccard")),
    Measure("error overlap, same", "adapter with itself", "share", _overlap_within("error_jaccard")),
    Measure("double fault", "both wrong", "share", _overlap("double_fault")),
    Measure("KL(A‖B)", "on A's text", "figures", _policy("A", "A", "B", "kl")),
    Measure("KL(B‖A)", "on B's text", "figures", _policy("B", "A", "B", "kl_reverse")),
    Measure("JS", "mean of texts", "figures", _policy_mean("js")),
    Measure("KL(A‖base)", "on A's text", "figures", _policy("A", "A", "base", "kl")),
    Measure("KL(B‖base)", "on B's text", "figures", _policy("B", "B", "base", "kl")),
    Measure("distance", "of updates", "share", _update("distance")),
    Measure("cosine", "of updates", "figures", _update("cosine")),
    Measure("angle", "median, degrees", "figures", _outputs("median")),
)
"""How alike the two are: in errors, as policies (nats a token), as updates (angles between what they write)."""
