"""The matches of chosen cells: one evaluation an arm, few matches each, so that the page stays small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agon.report.matrix.tree import Node, Tree, protocol_of, way_of
from agon.report.reader import Shelf, fill_shelf
from agon.runs import evaluation_matches_path, read_matches

MAX_MATCHES = 16
"""Most matches of one arm in the page."""
MAX_BYTES = 1_000_000
"""Largest size of all matches in the page, shared by the arms."""


@dataclass(frozen=True, slots=True)
class ChosenShelves:
    """What the reader holds, which of it it opens, and how many evaluations of the comparison are left out."""

    shelves: tuple[Shelf, ...]
    start: int | None
    num_left_out: int


def choose_shelves(tree: Tree) -> ChosenShelves:
    """Take the row that stands for each arm, in its first training, and keep the first matches up to both limits."""
    chosen = [(row, file) for row in tree.headlines() for file in _matches_of(row)[:1]]
    every = {file for row in tree.rows.values() for file in _matches_of(row)}
    room, left = MAX_BYTES, len(chosen)
    shelves: list[Shelf] = []
    for row, file in chosen:
        shelf = fill_shelf(
            _title(row), "evaluation", read_matches(file), max_matches=MAX_MATCHES, max_bytes=room // left
        )
        shelves.append(shelf)
        room, left = room - shelf.num_bytes, left - 1
    return ChosenShelves(
        tuple(shelves), _start(tree, [row for row, _ in chosen]), len(every) - len({file for _, file in chosen})
    )


def _start(tree: Tree, rows: Sequence[Node]) -> int | None:
    """Return the place of a key arm that is no rival, best one with an exchange to read."""
    rivals = {tree.rows[rival]["arm"] for rival in tree.rivals}
    places = {row["arm"]: at for at, row in enumerate(rows)}
    wanted = [arm for arm in tree.key_arms if arm in places and arm not in rivals]
    exchanging = [arm for arm in wanted if rows[places[arm]]["tokens"]["challenge"] > 0]
    return next((places[arm] for arm in (*exchanging, *wanted)), None)


def _matches_of(row: Node) -> Sequence[Path]:
    """Return the files of matches that a row was counted from, in the order of its trainings."""
    files = [
        evaluation_matches_path(Path(result["run"]), label) for result in row["per_seed"] for label in result["labels"]
    ]
    return [file for file in files if file.exists()]


def _title(row: Node) -> str:
    first = row["per_seed"][0]
    seed = "" if first["seed"] is None else f", seed {first['seed']}"
    way = first["direction"] or way_of(row)
    return f"{row['title']}: {protocol_of(row)}{f' {way}' if way else ''}{seed}"
