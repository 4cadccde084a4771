"""`agon train`: one recipe, or the quickstart's four."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.common import EXIT_INTERRUPTED, QUICKSTART, Subcommands, default_out, settings_of, tell, text

if TYPE_CHECKING:
    from agon.config import Settings


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "train",
        help="train one recipe, or the quickstart's four",
        description="Train one recipe. Without one: the quickstart, which trains GRPO (twice), cooperative exchange and Agon on an "
        "embedded model, evaluates them side by side and writes a report (about five minutes on two cores).",
    )
    parser.add_argument(
        "recipe", nargs="?", type=text, metavar="RECIPE", help="a .toml file or a preset's name (default: quickstart)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override one setting: train.steps=50"
    )
    parser.add_argument("--out", type=text, metavar="DIR", help="the run folder (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out where it stopped")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved settings and the budget, and stop")
    parser.set_defaults(run=train)


def train(options: Namespace) -> int:
    """`agon train`."""
    from agon.recipe import saved_settings
    from agon.runs.manifest import folder_kind, read_config

    name = options.recipe or QUICKSTART
    out = Path(options.out) if options.out else default_out(name)
    is_parent = folder_kind(out) == "parent"
    if name == QUICKSTART and (is_parent or options.recipe or not options.resume):
        return _train_quickstart(options, out)
    if options.resume and not options.recipe:
        settings = saved_settings(read_config(out), options.set, source=str(out / "config.json"))
    else:
        settings = settings_of(name, options.set)
    if options.dry_run:
        return _dry_run({out: settings})
    return _train_one(settings, out, resume=options.resume, overrides=options.set)


def _train_quickstart(options: Namespace, out: Path) -> int:
    from agon.ablation.quickstart import DEFAULT_RUN, quickstart_cells, run_quickstart
    from agon.cli.progress import CellsProgress
    from agon.cli.table import print_table

    settings = settings_of("quickstart-agon", options.set)
    cells = quickstart_cells(settings)
    if options.dry_run:
        return _dry_run({out / cell.name: cell.settings for cell in cells})
    progress = CellsProgress({cell.name: cell.settings.train.steps for cell in cells})
    with progress:
        result = run_quickstart(
            settings,
            out,
            say=tell,
            resume=options.resume,
            on_progress=progress.update,
            on_evaluation=progress.say_evaluation,
        )
    print_table(result.rows, seed=settings.train.seed)
    print(f"report: {result.report}")
    print(f'try: agon solve {out} "12 7 5 = 24"  ({out} stands for its run {DEFAULT_RUN})')
    return 0


def _train_one(settings: Settings, out: Path, *, resume: bool, overrides: Sequence[str]) -> int:
    from agon.cli.progress import StepProgress
    from agon.train.run import Watcher, resume_training, run_training

    with StepProgress(settings.train.steps) as progress:
        watcher = Watcher(say=progress.say, on_step=progress.on_step)
        trained = resume_training(out, settings, watcher) if resume else run_training(settings, out, watcher)
    if trained.was_stopped:
        # A run keeps the settings that it began with; what a continuation changes counts for that call alone.
        again = "".join(f" --set {shlex.quote(override)}" for override in overrides) if resume else ""
        print(
            f"agon: stopped after step {trained.completed_steps}, saved; continue with --resume --out {out}{again}",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    print(f"trained {trained.completed_steps} steps into {out}; next: agon eval {out}, agon report {out}")
    return 0


def _dry_run(runs: Mapping[Path, Settings]) -> int:
    """Print settings and budgets of the runs by their folders, and refuse what a training would for want of room: a run that is to begin."""
    from agon.methods.settle import settled
    from agon.recipe import describe_settings
    from agon.runs.manifest import folder_kind
    from agon.train.budget import describe_budget, plan_budget
    from agon.train.room import check_room

    budgets = {out: plan_budget(settings) for out, settings in runs.items()}
    for out, settings in runs.items():
        print(describe_settings(settled(settings)))
        print(describe_budget(budgets[out]))
    for out, budget in budgets.items():
        if folder_kind(out) is None:
            check_room(budget, out, say=tell)
    return 0
