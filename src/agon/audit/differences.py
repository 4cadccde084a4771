"""What differs between two runs: settings, versions, and the hashes of base and data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agon.runs import read_config, read_manifest


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


class Comparison(NamedTuple):
    """The differences of two runs by where they were found."""

    settings: list[Difference]
    versions: list[Difference]
    hashes: list[Difference]
    platform: list[Difference]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not any(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types. A run that does not name a value has no entry for it."""
        return {
            table: [
                {key: value for key, value in item._asdict().items() if value is not ABSENT} for item in differences
            ]
            for table, differences in self._asdict().items()
        }


def compare_runs(first: Path, second: Path) -> Comparison:
    """Compare what two run folders say of themselves.

    Raises:
        RunError: one is no run folder, or damaged.
    """
    manifests = read_manifest(first), read_manifest(second)
    one, other = read_config(first), read_config(second)
    return Comparison(
        settings=_differences(_flat(one), _flat(other)),
        versions=_differences(*(manifest.get("versions", {}) for manifest in manifests)),
        hashes=_differences(*(manifest.get("hashes", {}) for manifest in manifests)),
        platform=_differences(*({"platform": manifest.get("platform", ABSENT)} for manifest in manifests)),
    )


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    names = [*first, *(name for name in second if name not in first)]
    pairs = [Difference(name, first.get(name, ABSENT), second.get(name, ABSENT)) for name in names]
    return [pair for pair in pairs if pair.first != pair.second]


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`train.seed` for what stands under `seed` in the table `train`."""
    flat: dict[str, Any] = {}
    for table, inner in settings.items():
        if isinstance(inner, dict):
            flat |= {f"{table}.{name}": value for name, value in inner.items()}
        else:
            flat[table] = inner
    return flat
