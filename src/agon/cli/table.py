"""Results for people: the table with intervals, one evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from agon.cli.common import printable
from agon.runs.evaluations import protocol_title

# A table that is piped into a file must not be folded to 80 columns.
_WIDE = 170
_TOKENS = ("draft", "summary", "challenge", "total", "prefill")
_COLUMNS = ("pass@1", "n", "95% interval", *_TOKENS, "W->R", "blind", "R->W", "copy")


def print_table(rows: Sequence[Mapping[str, Any]], *, seed: int) -> None:
    """Print evaluations side by side: accuracy with n and interval, tokens of every stage, what the exchange did."""
    first = rows[0]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{first['task']}, {first['split']} problems, training seed {seed}",
        title_justify="left",
    )
    table.add_column("protocol")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        tokens = row["tokens"]
        interval = row["interval"]
        title = row["title"] + (f" ({row['direction']})" if row["direction"] else "")
        table.add_row(
            title,
            f"{row['accuracy']:.3f}",
            str(row["n"]),
            f"[{interval['low']:.3f}, {interval['high']:.3f}]",
            *(f"{tokens[stage]:.1f}" for stage in ("draft", "summary_prefill", "challenge", "total", "prefill_total")),
            *(_counted(row, name) for name in ("conversion", "blind_second", "regression")),
            _share(row["copy_rate"]),
        )
    out = console()
    out.print(table)
    out.print(_legend(first), highlight=False)
    for note in dict.fromkeys(f"{row['title']}: {note}" for row in rows for note in row["notes"]):
        out.print(printable(f"  {note}"), markup=False, highlight=False)


def print_evaluation(row: Mapping[str, Any]) -> None:
    """Print one evaluation: accuracy with its interval, tokens, what the exchange did, outcomes and notes."""
    interval = row["interval"]
    lines = [
        f"{row['task']} {row['split']}, {protocol_title(row)} ({row['label']}): pass@1 {row['accuracy']:.3f} "
        f"[{interval['low']:.3f}, {interval['high']:.3f}] ({interval['kind']} by {interval['unit']}, n={row['n']}, "
        f"samples={row['samples']}, evaluation seed {row['seed']})",
        "  mean tokens: " + ", ".join(f"{name.replace('_', ' ')} {value:.1f}" for name, value in row["tokens"].items()),
    ]
    if "latency_s" in row:
        lines.append(f"  {row['latency_s']:.4g} s of sampling a match, in batches")
    if row["lineup"]["doubt"] is not None:
        lines.append(
            f"  challenged {_share(row['challenged_share'])}: where the {row['lineup']['doubt']} of the draft is below "
            f"{float(row['lineup']['threshold']):.4g}"
        )
    if len(row["pass_at_k"]) > 1:
        lines.append("  " + ", ".join(f"pass@{k} {value:.3f}" for k, value in row["pass_at_k"].items()))
    if row["players"]["challenger"] is not None:
        lines.append(
            f"  wrong->right {_share(row['conversion'])} (blind second pass {_share(row['blind_second'])}), "
            f"right->wrong {_share(row['regression'])}, copies {_share(row['copy_rate'])}, leaks {_share(row['leak_rate'])}"
        )
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(row["outcomes"].items()))
    lines.append(f"  outcomes: {outcomes}; truncated stages {_share(row['truncated_share'])}")
    lines += [f"  {note}" for note in row["notes"]]
    out = console()
    for line in lines:
        out.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _legend(row: Mapping[str, Any]) -> str:
    interval = row["interval"]
    return (
        f"  interval: {interval['kind']} over {interval['unit']}, level {interval['level']:g}; one evaluation seed ({row['seed']}), "
        f"T {row['temperature']:g}, top-p {row['top_p']:g}\n"
        "  tokens: means a problem; total = generated in all stages, prefill = prompt tokens read in all stages\n"
        "  W->R (of how many): challenge right where the draft was wrong; blind: the same adapter right there without reading; "
        "R->W: the reverse\n"
        "  one training seed: intervals cover the drawing of problems, not of trainings; rows whose intervals overlap are not told apart"
    )


def _counted(row: Mapping[str, Any], name: str) -> str:
    """A conditional rate with the number of matches it is a share of."""
    count = row["intervals"].get(name, {}).get("n")
    return _share(row[name]) + (f" ({count})" if count else "")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def console() -> Console:
    """Return standard output as wide as the terminal, or wide enough for a table."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=_WIDE)
