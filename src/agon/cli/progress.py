"""Progress: a bar on a terminal, one plain line at least every 15 s when the output is a file."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agon.cli.common import one_line

if TYPE_CHECKING:
    from agon.ablation.run import MatrixState, Running

_PLAIN_EVERY_S = 15.0
_TICK_S = 0.5


class _Bars:
    """Rich bars where a person looks on, timed plain lines elsewhere. Everything goes to standard error.

    Without a terminal a line is due every 15 s also while nothing ends: a ticker then says for how long it has been at work.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.is_live = sys.stderr.isatty()
        self._last_plain = time.monotonic()
        self._was_last = False
        self._line = "working"
        self._started = time.monotonic()
        self._is_over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[info]}"),
            console=self.console,
            disable=not self.is_live,
        )

    def __enter__(self) -> Self:
        self.progress.start()
        if not self.is_live:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self.progress.stop()

    def _tick(self) -> None:
        while not self._is_over.wait(_TICK_S):
            if not self._was_last and time.monotonic() - self._last_plain >= _PLAIN_EVERY_S:
                self.plain(f"{self._line} ({time.monotonic() - self._started:.0f} s)")

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        self.console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)

    def plain(self, line: str, *, is_last: bool = False) -> None:
        """Print a line where there are no bars, unless one was printed less than 15 s ago; the last one is printed once."""
        now = time.monotonic()
        self._line = line.partition(" (")[0]
        is_due = not self._was_last if is_last else now - self._last_plain >= _PLAIN_EVERY_S
        if not self.is_live and is_due:
            self._last_plain = now
            self._was_last = is_last
            print(line, file=sys.stderr, flush=True)


class StepProgress(_Bars):
    """Progress of one training."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._task: TaskID | None = None

    def on_step(self, step: int, row: dict[str, Any]) -> None:
        """Show a finished step and its most telling numbers."""
        if self._task is None:
            self._task = self.progress.add_task("training", total=self._total, completed=step, info="")
        info = _info(row)
        self.progress.update(self._task, completed=step + 1, info=info)
        self.plain(f"step {step + 1}/{self._total}  {info}", is_last=step + 1 == self._total)


class CellsProgress(_Bars):
    """Progress of several trainings side by side."""

    def __init__(self, totals: Mapping[str, int]) -> None:
        super().__init__()
        self._totals = dict(totals)
        self._tasks = {name: self.progress.add_task(name, total=total, info="") for name, total in totals.items()}

    def update(self, steps: Mapping[str, int]) -> None:
        """Show how many steps each has completed."""
        for name, done in steps.items():
            self.progress.update(self._tasks[name], completed=done)
        parts = [f"{name} {done}/{self._totals[name]}" for name, done in steps.items()]
        is_last = all(done >= self._totals[name] for name, done in steps.items())
        self.plain("training: " + ", ".join(parts), is_last=is_last)

    def say_evaluation(self, title: str) -> None:
        """Show what is being measured."""
        self.say(f"evaluating: {title}")


class MatrixProgress(_Bars):
    """Progress of a matrix: a bar for its cells, and one for each that is running."""

    def __init__(self) -> None:
        super().__init__()
        self._all: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}

    def update(self, now: MatrixState) -> None:
        """Show how many cells are done, which are running, and about how long the rest will take."""
        if self._all is None:
            self._all = self.progress.add_task("cells", total=now.total, info="")
        self.progress.update(self._all, completed=now.done)
        names = {cell.name for cell in now.running}
        for name in [name for name in self._tasks if name not in names]:
            self.progress.remove_task(self._tasks.pop(name))
        for cell in now.running:
            total = cell.total_steps + cell.total_evaluations
            if cell.name not in self._tasks:
                self._tasks[cell.name] = self.progress.add_task(cell.name, total=total, info="")
            self.progress.update(self._tasks[cell.name], completed=cell.steps + cell.evaluations)
        parts = [_cell_info(cell) for cell in now.running]
        self.plain(f"cells {now.done}/{now.total}{self._rest(now)}: " + ", ".join(parts))

    def _rest(self, now: MatrixState) -> str:
        """Say about how long the rest takes, going by the cells that were finished."""
        if not now.done:
            return ""
        passed = time.monotonic() - self._started
        return f", about {passed * (now.total - now.done) / now.done / 60:.0f} min left"


def _cell_info(cell: Running) -> str:
    if cell.steps < cell.total_steps:
        return f"{cell.name} step {cell.steps}/{cell.total_steps}"
    return f"{cell.name} evaluation {cell.evaluations}/{cell.total_evaluations}"


class EvaluationProgress(_Bars):
    """Progress of one evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self._task: TaskID | None = None

    def update(self, done: int, total: int) -> None:
        """Show how many problems have been played."""
        if self._task is None:
            self._task = self.progress.add_task("evaluating", total=total, info="problems")
        self.progress.update(self._task, completed=done)
        self.plain(f"evaluating: {done}/{total} problems", is_last=done == total)


class ChecksProgress(_Bars):
    """Progress of many checks of `unit` (rows, completions); how many there are may not be known."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit
        self._task: TaskID | None = None

    def update(self, done: int, total: int | None = None) -> None:
        """Show how many have been checked."""
        if self._task is None:
            self._task = self.progress.add_task("checking", total=total, info=self._unit)
        self.progress.update(self._task, completed=done)
        of_all = f"{done}" if total is None else f"{done}/{total}"
        self.plain(f"checking: {of_all} {self._unit}", is_last=False)


class StagesProgress(_Bars):
    """Progress of work in several stages, each with an end of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, TaskID] = {}

    def update(self, stage: str, done: int, total: int) -> None:
        """Show how much of a stage is done."""
        if stage not in self._tasks:
            self._tasks[stage] = self.progress.add_task(stage, total=total, info="")
        self.progress.update(self._tasks[stage], completed=done)
        self.plain(f"{stage}: {done}/{total}")


def _info(row: Mapping[str, Any]) -> str:
    parts = [
        f"{short} {row[name]:.3g}"
        for short, name in (
            ("draft", "draft/accuracy"),
            ("challenge", "challenge/accuracy"),
            ("tokens", "draft/tokens_mean"),
            ("entropy", "draft/entropy"),
            ("no signal", "draft/dead_group_share"),
        )
        if row.get(name) is not None
    ]
    return "  ".join(parts)
