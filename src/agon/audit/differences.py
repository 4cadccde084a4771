"""What differs between two runs: settings, versions, base and data, machine; and whether the same came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from agon.errors import RunError
from agon.records import ADAPTERS
from agon.runs import (
    checkpoint_step,
    child_runs,
    folder_kind,
    list_checkpoints,
    read_config,
    read_manifest,
    read_metrics,
)
from agon.runs.atomic import MARKER
from agon.runs.manifest import DATA, read_json
from agon.secrecy import redact

_WEIGHTS = "adapter_model.safetensors"
_MOST_METRICS = 5


class Difference(NamedTuple):
    """A name under which two runs hold different values. `ABSENT` stands for what a run does not name at all."""

    name: str
    first: Any
    second: Any


class Absent:
    """Stands for a value that is not there, which is not the same as a value of None."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two runs by where they were found. `results` are those of what came out; the others may be why.

    `num_steps` counts the steps that both have taken, `saved_step` is the last of which both have a checkpoint.
    """

    settings: list[Difference]
    versions: list[Difference]
    hashes: list[Difference]
    data: list[Difference]
    machine: list[Difference]
    results: list[Difference]
    num_steps: int
    saved_step: int | None

    @property
    def causes(self) -> dict[str, list[Difference]]:
        """What may be why results differ, by where it was found."""
        return {name: getattr(self, name) for name in ("settings", "versions", "hashes", "data", "machine")}

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.results or any(self.causes.values()))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types. A run that does not name a value has no entry for it."""
        tables = {
            table: [
                {key: value for key, value in item._asdict().items() if value is not ABSENT} for item in differences
            ]
            for table, differences in {**self.causes, "results": self.results}.items()
        }
        return {**tables, "num_steps": self.num_steps, "saved_step": self.saved_step}


class Pair(NamedTuple):
    """Two runs of the same name in two folders of runs; None where a folder has none of that name, or it has not begun."""

    name: str
    first: Path | None
    second: Path | None


def pair_runs(first: Path, second: Path) -> list[Pair]:
    """Return the runs of two quickstarts or matrices by their names.

    Raises:
        RunError: one is no such folder, or of another format version.
    """
    by_name = [{run.relative_to(path).as_posix(): run for run in child_runs(path)} for path in (first, second)]
    begun = [{name: run for name, run in runs.items() if folder_kind(run) == "run"} for runs in by_name]
    names = dict.fromkeys(name for runs in by_name for name in runs)
    return [Pair(name, begun[0].get(name), begun[1].get(name)) for name in names]


def compare_runs(first: Path, second: Path) -> Comparison:
    """Compare what two run folders say of themselves, and what they measured while they trained.

    Raises:
        RunError: one is no run folder, of another format version, or damaged.
    """
    # What an older agon wrote, or somebody by hand, may hold secrets.
    manifests = redact(read_manifest(first)), redact(read_manifest(second))
    one, other = redact(read_config(first)), redact(read_config(second))
    metrics = read_metrics(first), read_metrics(second)
    saved = [{checkpoint_step(path): path for path in list_checkpoints(run)} for run in (first, second)]
    step = max(saved[0].keys() & saved[1].keys(), default=None)
    return Comparison(
        settings=_differences(_flat(one), _flat(other)),
        versions=_differences(*(manifest.get("versions", {}) for manifest in manifests)),
        hashes=_differences(*(manifest.get("hashes", {}) for manifest in manifests)),
        data=_differences(_data(first), _data(second)),
        machine=_differences(*(_machine(manifest) for manifest in manifests)),
        results=[*_metrics(*metrics), *([] if step is None else _adapters(saved[0][step], saved[1][step]))],
        num_steps=min(map(len, metrics)),
        saved_step=step,
    )


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    names = [*first, *(name for name in second if name not in first)]
    pairs = [Difference(name, first.get(name, ABSENT), second.get(name, ABSENT)) for name in names]
    return [pair for pair in pairs if pair.first != pair.second]


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """`train.seed` for what stands under `seed` in the table `train`."""
    flat: dict[str, Any] = {}
    for table, inner in tree.items():
        if isinstance(inner, dict):
            flat |= {f"{table}.{name}": value for name, value in inner.items()}
        else:
            flat[table] = inner
    return flat


def _data(run: Path) -> dict[str, Any]:
    """Return what a run was trained on; of dropped rows their number. A run from before this was written down has nothing."""
    if not (run / DATA).exists():
        return {}
    account = _flat(redact(read_json(run / DATA)))
    return {name: len(value) if isinstance(value, list) else value for name, value in account.items()}


def _machine(manifest: Mapping[str, Any]) -> dict[str, Any]:
    machine = manifest.get("machine")
    platform = {"platform": manifest["platform"]} if "platform" in manifest else {}
    return {**platform, **(machine if isinstance(machine, dict) else {})}


def _metrics(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return how many steps there are, if not equally many, and the first step whose numbers are not the same, bit for bit."""
    found = [] if len(first) == len(second) else [Difference("steps", len(first), len(second))]
    for one, other in zip(first, second, strict=False):
        if one != other:
            named = [item._replace(name=f"step {one['step']}: {item.name}") for item in _differences(one, other)]
            return [*found, *named[:_MOST_METRICS]]
    return found


def _adapters(first: Path, second: Path) -> list[Difference]:
    """Return the hashes of the adapters in two checkpoints of one step, where these differ."""
    step = checkpoint_step(first)
    return [
        item._replace(name=f"adapter {item.name} after step {step}")
        for item in _differences(_hashes(first), _hashes(second))
    ]


def _hashes(checkpoint: Path) -> dict[str, Any]:
    try:
        files = read_json(checkpoint / MARKER)["files"]
        return {name: files[f"{name}/{_WEIGHTS}"]["sha256"] for name in ADAPTERS}
    except (RunError, KeyError, TypeError):
        return dict.fromkeys(ADAPTERS, "(checkpoint damaged)")
