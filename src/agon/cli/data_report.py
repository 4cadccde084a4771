"""What a check of a data set found, for people."""

from __future__ import annotations

from collections.abc import Iterator

from agon.cli.common import one_line, printable
from agon.datacheck.findings import FAULTS, NOTES, DataReport, Finding

_MOST_CHARS = 160


def print_data_report(report: DataReport, *, most: int) -> None:
    """Print counts, then of each kind of finding the first `most` rows, then the verdict."""
    for line in _lines(report, most):
        print(printable(line))


def _lines(report: DataReport, most: int) -> Iterator[str]:
    yield f"{report.task}: {' + '.join(report.sources)}"
    unique = f"{report.num_unique:,} unique of {report.num_problems:,} problems in {report.num_rows:,} rows"
    splits = ", ".join(f"{count:,} {name}" for name, count in report.splits.items())
    filtered = f", {report.num_filtered:,} filtered" if report.num_filtered else ""
    yield f"{unique}; {splits}{filtered}"
    answer, count = report.top_answer
    if count > 1:
        share, guessable = count / report.num_unique, report.num_guessable / report.num_unique
        yield f"most frequent answer: {_short(answer)} ({share:.1%}); guessable (yes/no): {guessable:.1%}"
    yield f"longest question: {report.longest:,} characters"
    for name, size in report.against.items():
        yield f"compared with {name}: {size:,} problems"
    for mark, kinds in (("FAULT", FAULTS), ("note", NOTES)):
        for kind, meaning in kinds.items():
            found = [finding for finding in report.findings if finding.kind == kind]
            if found:
                yield f"\n{mark} {kind}: {len(found):,} {meaning}"
                for finding in found[:most]:
                    yield from _told(finding)
                if len(found) > most:
                    yield f"  and {len(found) - most:,} more (all with --json)"
    yield "\nclean" if report.is_clean else "\nnot clean: mend or drop the rows under FAULT"


def _told(finding: Finding) -> Iterator[str]:
    if finding.at is None:
        yield f"  {one_line(finding.reason)}"
        return
    yield f"  row {finding.at.row} of {finding.at.source}: {one_line(finding.reason)}"
    if finding.at.text:
        yield f"      {_short(finding.at.text)}"
    if finding.other is not None and finding.other.text != finding.at.text:
        yield f"      {_short(finding.other.text)}"


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _MOST_CHARS else f"{line[:_MOST_CHARS]}…"
