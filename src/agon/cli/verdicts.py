"""Verdicts for people and for scripts: one, and many against their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon.audit.judge import Judged
    from agon.audit.pairs import Disagreement, Pairs

_WIDTH = 70
_BAD_SHOWN = 20


def verdict_json(judged: Judged) -> dict[str, Any]:
    """Return one verdict as plain JSON types: what was decided, why, and what was compared."""
    verdict = judged.verdict
    return {
        "verdict": verdict.outcome,
        "score": verdict.score,
        "reason": verdict.reason,
        "gold": verdict.gold,
        "answer": verdict.answer,
    }


def print_verdict(judged: Judged) -> None:
    """Print one verdict, why, and what was compared."""
    verdict = judged.verdict
    print(verdict.outcome + (f": {shown(verdict.reason, None)}" if verdict.reason else ""))
    print(f"  gold    {shown(verdict.gold, None)}")
    print(f"  answer  {shown(verdict.answer, None)}")


def pairs_json(
    pairs: Pairs, summary: Mapping[str, Any], faults: Sequence[Disagreement], *, shown: int | None
) -> dict[str, Any]:
    """Return agreement with the labels as plain JSON types; `shown` bounds the list of rows that disagree."""
    return {
        **summary,
        "source": pairs.source,
        "left_out": pairs.num_left_out,
        "bad_rows": [row._asdict() for row in pairs.bad],
        "disagreements": [
            {
                "number": fault.judged.check.source.number,
                "id": fault.judged.check.source.id,
                "fault": fault.fault,
                **verdict_json(fault.judged),
                "seconds": round(fault.judged.seconds, 4),
            }
            for fault in faults[:shown]
        ],
    }


def print_pairs(pairs: Pairs, summary: Mapping[str, Any], faults: Sequence[Disagreement], *, shown: int | None) -> None:
    """Print agreement with the labels: in all, by group, and the rows that disagree."""
    low, high = summary["interval"]["low"], summary["interval"]["high"]
    print(
        f"{pairs.source}: {summary['agree']} of {summary['n']} rows agree, {summary['agreement']:.4f} "
        f"[{low:.4f}, {high:.4f}] (95 % Clopper-Pearson by row)"
    )
    print(
        f"  false positives {summary['false_positives']}, false negatives {summary['false_negatives']}, "
        f"time-outs {summary['timeouts']}, errors {summary['errors']}"
    )
    slowest = summary["slowest"][0]
    print(f"  slowest check: {slowest['seconds']:.2f} s, row {slowest['number']} ({slowest['verdict']})")
    print("  verdicts: " + ", ".join(f"{outcome} {count}" for outcome, count in summary["outcomes"].items()))
    if pairs.num_left_out:
        print(f"  rows left out by --kind, --tier or --tag: {pairs.num_left_out}")
    _print_bad(pairs)
    _print_groups(summary)
    _print_faults(faults, shown)


def shown(value: str | None, width: int | None = _WIDTH) -> str:
    """Return a text on one line, what cannot be printed escaped, at most `width` characters (None: all)."""
    if value is None:
        return "(none)"
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in value[:width])
    return line if width is None or len(value) <= width else f"{line}…"


def print_table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns: the first to the left, numbers to the right."""
    widths = _widths(rows)
    for row in rows:
        cells = [str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = str(row[0]).ljust(widths[0])
        print("  " + "  ".join(cells))


def print_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns of texts."""
    widths = _widths(rows)
    for row in rows:
        cells = [str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)]
        print(("  " + "  ".join(cells)).rstrip())


def _widths(rows: Sequence[Sequence[object]]) -> list[int]:
    return [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]


def _print_bad(pairs: Pairs) -> None:
    if pairs.bad:
        print(f"  rows that could not be judged: {len(pairs.bad)}")
    for row in pairs.bad[:_BAD_SHOWN]:
        print(f"    row {row.number}: {shown(row.reason, None)}")
    if len(pairs.bad) > _BAD_SHOWN:
        print(f"    … {len(pairs.bad) - _BAD_SHOWN} more (--json lists all)")


def _print_groups(summary: Mapping[str, Any]) -> None:
    from agon.audit.pairs import GROUPS

    for group in GROUPS:
        counts: Mapping[str, Mapping[str, int]] = summary[f"by_{group}"]
        if group == "tag":  # there may be a hundred, and those without a fault say nothing
            counts = {name: count for name, count in counts.items() if count["agree"] < count["n"]}
        elif len(counts) < 2:  # the same as the line above
            continue
        if not counts:
            continue
        print()
        header = (f"by {group}", "rows", "agree", "false pos.", "false neg.", "time-outs", "errors")
        names = ("n", "agree", "false_positives", "false_negatives", "timeouts", "errors")
        print_table([header, *((shown(name, 40), *(count[key] for key in names)) for name, count in counts.items())])


def _print_faults(faults: Sequence[Disagreement], limit: int | None) -> None:
    listed = faults[:limit]
    for fault in dict.fromkeys(item.fault for item in listed):
        of_fault = [item.judged for item in listed if item.fault == fault]
        print(f"\n{fault}s")
        for judged in of_fault:
            pair, verdict = judged.check.source, judged.verdict
            name = f"row {pair.number}" + (f" ({pair.id})" if pair.id else "")
            print(f"  {name}  {verdict.outcome}: {shown(verdict.reason)}")
            if pair.problem.verifier != "code":
                print(f"      gold    {shown(verdict.gold)}")
                print(f"      answer  {shown(verdict.answer if verdict.answer is not None else pair.text[-_WIDTH:])}")
    if len(listed) < len(faults):
        print(f"\n… {len(faults) - len(listed)} more rows disagree (--all lists them)")
