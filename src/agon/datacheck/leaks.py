"""Training problems that also stand where something is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agon.datacheck.findings import Finding
from agon.datacheck.golds import Progress
from agon.datacheck.overlap import RUN_WORDS, RunIndex
from agon.datacheck.rows import Item

# From here on a near copy is taken for a leak: only spelling, a word or a sign differs. Below it is another problem of its kind.
_LEAK_SHARE = 0.75


def find_leaks(
    items: Sequence[Item], held_out: Mapping[str, Sequence[Item]], *, on_progress: Progress
) -> list[Finding]:
    """Return which of the items stand in a held-out set, told by its name, as the same text or as a near copy.

    Near copies are told with those that have most in common first.
    """
    findings: list[Finding] = []
    for number, (name, held) in enumerate(held_out.items()):
        on_progress("looking for leaks", number, len(held_out))
        by_id = {item.problem.id: item for item in held}
        same = [(item, by_id[item.problem.id]) for item in items if item.problem.id in by_id]
        findings += [
            Finding("leak", f"the same text as row {other.row} ({name})", item.place, other.place)
            for item, other in same
        ]
        findings += _near_copies(name, [item for item in items if item.problem.id not in by_id], held)
    return findings


def _near_copies(name: str, items: Sequence[Item], held: Sequence[Item]) -> list[Finding]:
    index = RunIndex(item.problem.question for item in held)
    copies = index.near_copies(item.problem.question for item in items)
    copies.sort(key=lambda copy: -copy.share)
    return [
        Finding(
            "near-leak" if copy.share >= _LEAK_SHARE else "similar",
            f"{copy.share:.0%} of the shorter one's runs of {RUN_WORDS} words also in row {held[copy.second].row} ({name})",
            items[copy.first].place,
            held[copy.second].place,
        )
        for copy in copies
    ]
