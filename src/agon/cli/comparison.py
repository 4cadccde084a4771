"""A comparison for people: one table of results, what the challenges did, the tests, and who is beaten at fewer tokens."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agon.cli.common import printable
from agon.comparison.headline import representatives
from agon.comparison.records import Comparison, PairedTest, Row

_WIDTH = 100
_MOST_LINES = 40
_MOST_FRONT = 12
_EXCHANGE_LEGEND = (
    "W->R (of how many): challenge right where the draft was wrong; blind: the same adapter right there without reading; "
    "R->W: the reverse; summary, prompts: mean tokens read"
)


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison, 100 columns wide: on a narrower terminal the table would lose numbers."""
    console = Console(width=_WIDTH)
    rows, hidden = _shown(comparison)
    console.print(_result_table(comparison, rows))
    _print_lines(console, _legend(comparison, rows, hidden))
    challenged = [row for row in rows if row.conversion is not None or row.regression is not None]
    if challenged:
        console.print()
        console.print(_exchange_table(challenged))
        _print_lines(console, [_EXCHANGE_LEGEND])
    for family in dict.fromkeys(test.family for test in comparison.tests):
        console.print()
        console.print(_test_table(comparison, [test for test in comparison.tests if test.family == family]))
    _print_lines(console, [*_test_legend(comparison), *_effects(comparison), *_front(comparison)])
    for note in comparison.notes:
        console.print(printable(f"note: {note}"), markup=False, highlight=False, soft_wrap=True)


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        wrapped = textwrap.fill(
            printable(line),
            console.width,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        console.print(wrapped, markup=False, highlight=False)


def _shown(comparison: Comparison) -> tuple[list[Row], int]:
    """Return one row for every arm and protocol, or where those are many one an arm; and how many that leaves out."""
    every = representatives(comparison.rows)
    if len(every) <= _MOST_LINES:
        return every, 0
    headlines = {arm.headline for arm in comparison.arms}
    kept = [row for row in every if row.id in headlines]
    return kept, len(every) - len(kept)


def _result_table(comparison: Comparison, rows: Sequence[Row]) -> Table:
    subject = comparison.subject
    by_who = {(row.arm, _protocol(row), row.who): row for row in comparison.rows}

    def beside(row: Row, who: str) -> float | None:
        other = by_who.get((row.arm, _protocol(row), who))
        return None if other is None else other.accuracy

    columns: dict[str, list[str]] = {
        "s": [str(len(row.seeds) or "-") for row in rows],
        "pass@1": [_share(row.accuracy) for row in rows],
        "95% interval": [_bounds(row.interval.low, row.interval.high) for row in rows],
        "SD": [_share(row.seed_sd) for row in rows],
        **{who: [_share(beside(row, who)) for row in rows] for who in ("a-b", "b-a", "mean")},
        "draft": [_tokens(row.tokens.draft) for row in rows],
        "chal.": [_tokens(row.tokens.challenge) for row in rows],
        "total": [_tokens(row.tokens.total) for row in rows],
        "trunc": [_share(row.truncated_share, 2) for row in rows],
        "dead": [_share(row.dead_group_share, 2) for row in rows],
    }
    return _table(f"{subject.task}, {subject.split}: {subject.n} problems", [_label(row) for row in rows], columns)


def _exchange_table(rows: Sequence[Row]) -> Table:
    columns: dict[str, list[str]] = {
        "W->R": [_counted(row.conversion, row.counted.get("conversion")) for row in rows],
        "blind": [_share(row.blind_second) for row in rows],
        "R->W": [_counted(row.regression, row.counted.get("regression")) for row in rows],
        "copy": [_share(row.copy, 2) for row in rows],
        "leak": [_share(row.leak, 2) for row in rows],
        "summary": [_tokens(row.tokens.summary_prefill) for row in rows],
        "prompts": [_tokens(row.tokens.prompt_prefill) for row in rows],
        "revived": [_share(row.revived_group_share, 2) for row in rows],
        "seconds": ["-" if row.latency_s is None else f"{row.latency_s:.2f}" for row in rows],
    }
    return _table("what the challenges did", [_label(row) for row in rows], columns)


def _test_table(comparison: Comparison, tests: Sequence[PairedTest]) -> Table:
    by_id = {row.id: row for row in comparison.rows}
    rival = by_id[tests[0].second]
    is_one = all(
        row.id == rival.id for row in comparison.rows if (row.arm, _protocol(row)) == (rival.arm, _protocol(rival))
    )
    who = f", {_way(rival)}" if rival.direction is not None or not is_one else ""
    columns: dict[str, list[str]] = {
        "diff.": [f"{test.difference:+.3f}" for test in tests],
        "95% interval": [f"[{test.interval.low:+.3f}, {test.interval.high:+.3f}]" for test in tests],
        "seeds": [f"{test.seeds[0]}/{test.seeds[1]}" for test in tests],
        "wins": [str(test.wins) for test in tests],
        "losses": [str(test.losses) for test in tests],
        "p": [_p_value(test.p) for test in tests],
        "p Holm": [_p_value(test.p_holm) + ("*" if test.is_significant else " ") for test in tests],
        "sees": [_share(test.min_detectable) for test in tests],
    }
    title = f"against {rival.arm} ({_protocol(rival)}{who}): arm minus rival on the same problems"
    return _table(title, [_label(by_id[test.first]) for test in tests], columns)


def _legend(comparison: Comparison, rows: Sequence[Row], hidden: int) -> Iterator[str]:
    subject = comparison.subject
    kinds = "; ".join(dict.fromkeys(f"{row.interval_kind} over {row.interval.unit}" for row in rows))
    level = rows[0].interval.level
    yield f"interval ({level:g}): {kinds}"
    seed = (
        "several evaluation seeds" if subject.evaluation_seed is None else f"evaluation seed {subject.evaluation_seed}"
    )
    samples = sorted({row.samples for row in rows})
    yield f"{seed}, T {subject.temperature}, top-p {subject.top_p}, samples a problem: {', '.join(map(str, samples))}"
    way = ", or as the row says" if any(row.direction not in (None, "chosen") for row in rows) else ""
    yield f"pass@1: of cascades in the direction chosen on development problems{way}; s: trainings; SD: of them"
    yield "draft, chal., total: mean generated tokens; dead: groups without a signal while training"
    if any(len(row.seeds) == 1 for row in rows):
        yield "one training (s = 1): intervals cover the drawing of problems, not of trainings"
    if hidden:
        yield f"{hidden} rows of other protocols: --protocol NAME, or --json"


def _test_legend(comparison: Comparison) -> Iterator[str]:
    kinds = ", ".join(dict.fromkeys(test.kind for test in comparison.tests))
    if kinds:
        yield f"test: {kinds}; p Holm: corrected for all tests against that rival, * below .05"
        yield "sees: smallest true difference found with 80 % power at .05; a null excludes no smaller one"


def _effects(comparison: Comparison) -> Iterator[str]:
    panel = comparison.panel_2x2
    for effect in panel.effects if panel is not None else ():
        low, high = effect.interval.low, effect.interval.high
        yield f"{effect.name}: {effect.difference:+.3f} [{low:+.3f}, {high:+.3f}]"


def _front(comparison: Comparison) -> Iterator[str]:
    """Say who is on the front of accuracy against generated tokens, cheapest first, and which arms a plain rival beats."""
    by_id = {row.id: row for row in comparison.rows}
    front = [point for point in comparison.frontier if point.is_on_front]
    if len(comparison.frontier) < 2:
        return
    names = [f"{_label(by_id[point.row])} {_share(point.accuracy)} ({_tokens(point.total)})" for point in front]
    more = f" and {len(names) - _MOST_FRONT} more" if len(names) > _MOST_FRONT else ""
    yield f"no other is as accurate on as few tokens (total): {'; '.join(names[:_MOST_FRONT])}{more}"
    points = {point.row: point for point in comparison.frontier}
    beaten: dict[str, list[str]] = {}
    for arm in comparison.arms:
        if arm.headline is None:
            continue
        own, better = by_id[arm.headline], points[arm.headline].dominated_by
        if better is not None and points[better].is_rival:
            beaten.setdefault(better, []).append(f"{arm.name} ({_way(own)})" if own.is_unchosen else arm.name)
    for rival, arms in beaten.items():
        yield f"{_label(by_id[rival])} is, by the means, as accurate on no more tokens as {', '.join(arms)}"


def _table(title: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Table:
    """Lay out a table; a column without a single number is left out."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=escape(printable(title)),
        title_justify="left",
        padding=0,
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("arm: protocol", overflow="fold")
    kept = {name: values for name, values in columns.items() if any(value != "-" for value in values)}
    for name in kept:
        table.add_column(name, justify="right", no_wrap=True)
    for number, label in enumerate(names):
        table.add_row(escape(printable(label)), *(values[number] for values in kept.values()))
    return table


def _label(row: Row) -> str:
    """Name a row; the players only where they do not follow from the protocol."""
    is_named = row.who == "b" or "+" in row.who or row.direction not in (None, "chosen")
    return f"{row.arm}: {_protocol(row)}{f' {_way(row)}' if is_named else ''}"


def _way(row: Row) -> str:
    return f"{row.who}, not chosen" if row.is_unchosen else row.who


def _protocol(row: Row) -> str:
    """Name what was measured, whoever played."""
    name = row.protocol if row.drafts == 1 else f"{row.protocol}, {row.drafts} drafts"
    if row.label:
        name = row.label if row.label.startswith(row.protocol) else f"{name} {row.label}"
    return f"{name}, doubled cap" if row.has_doubled_cap else name


def _bounds(low: float, high: float) -> str:
    return f"[{_share(low)},{_share(high)}]"


def _counted(value: float | None, count: int | None) -> str:
    return _share(value) + (f" ({count})" if count else "")


def _share(value: float | None, digits: int = 3) -> str:
    """A share without its leading zero, as statisticians write it."""
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def _tokens(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _p_value(value: float) -> str:
    return "<.0001" if value < 1e-4 else _share(value, 4)
