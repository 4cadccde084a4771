"""One HTML file from run folders, with a comparison in it where there are several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agon.comparison.compare import compare
from agon.comparison.records import Comparison
from agon.errors import AgonError, ConfigError
from agon.report.write import write_report
from agon.runs import child_runs, folder_kind


def write_compared(
    paths: Sequence[Path],
    out: Path,
    *,
    say: Callable[[str], None],
    against: Sequence[str] = (),
    task: str | None = None,
    split: str | None = None,
) -> Comparison | None:
    """Write the report of some folders, and return the comparison in it: None where there is one run, or nothing to compare.

    Why runs are not compared is told through `say`. With `task` or `split` the page shows no evaluation on another, and says how many it leaves out.

    Raises:
        AgonError: how to compare was said, and it cannot be done so; or a path is no run folder.
    """
    comparison = _comparison(paths, say, against=against, task=task, split=split)
    tree = None if comparison is None else comparison.to_json()
    write_report(paths, out, comparison=tree, is_narrowed=task is not None or split is not None)
    return comparison


def _comparison(
    paths: Sequence[Path], say: Callable[[str], None], *, against: Sequence[str], task: str | None, split: str | None
) -> Comparison | None:
    """Compare the runs where there are several. Runs that cannot be compared still have a page, which says so."""
    is_asked = bool(against or task or split)
    runs = {run.resolve() for path in paths for run in child_runs(path)}
    # The page of one run has no comparison, even where others are planned.
    if is_asked and sum(folder_kind(run) is not None for run in runs) < 2:
        raise ConfigError("--against, --task and --split choose what is compared, but there is one run: give several")
    if len(runs) < 2:
        return None
    try:
        return compare(paths, against=against, task=task, split=split)
    except AgonError as error:
        if is_asked:
            raise
        say(f"the report compares nothing: {error}")
        return None
