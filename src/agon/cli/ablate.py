"""`agon ablate`: a matrix of methods and seeds from one recipe."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.common import EXIT_INTERRUPTED, Subcommands, add_json, default_out, print_json, recipe_path, tell, text

if TYPE_CHECKING:
    from agon.ablation.jobs import Failure
    from agon.ablation.plan import Plan
    from agon.ablation.run import CellState


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "ablate",
        help="train and measure a matrix of methods and seeds",
        description="Train every arm of a recipe's [matrix] with every seed, several side by side, measure each, and write one report. "
        "Every arm samples equally many rollouts of each problem, or nothing is started.",
    )
    parser.add_argument(
        "recipe", type=text, metavar="RECIPE", help="a .toml file or a preset's name: matrix-quickstart"
    )
    parser.add_argument(
        "--methods", type=_names, metavar="A,B,...", help="some of the recipe's arms, or further methods"
    )
    parser.add_argument("--seeds", type=_seeds, metavar="0,1,...", help="training seeds (default: the recipe's)")
    parser.add_argument("--out", type=text, metavar="DIR", help="the matrix's folder (default: runs/NAME)")
    parser.add_argument("--resume", action="store_true", help="continue the matrix in --out; what is finished is kept")
    parser.add_argument(
        "--dry-run", action="store_true", help="print every cell and its budget, or what a start would refuse, and stop"
    )
    parser.add_argument(
        "--parallel",
        type=_count,
        metavar="K",
        help="cells at once (default: one a CUDA device, or else one a CPU core)",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override one setting of all cells"
    )
    add_json(parser)
    parser.set_defaults(run=ablate)


def ablate(options: Namespace) -> int:
    """`agon ablate`."""
    from agon.ablation.launch import warm_up
    from agon.recipe import read_tables

    name = Path(options.recipe).name.removesuffix(".toml")
    out = Path(options.out) if options.out else default_out(options.recipe)
    with recipe_path(options.recipe) as path:
        tree = read_tables(path)
    if not options.dry_run:
        warm_up()
    from agon.ablation.plan import plan_matrix

    plan = plan_matrix(
        tree, options.set, source=options.recipe, name=name, methods=options.methods, seeds=options.seeds
    )
    return _dry_run(plan, out, options) if options.dry_run else _run(plan, out, options)


def _dry_run(plan: Plan, out: Path, options: Namespace) -> int:
    """Print the cells, and refuse what a start would before its first training."""
    from agon.ablation.run import adopt, cell_states, check_plan, matrix_in, stuck_cells
    from agon.cli.matrix_table import cells_json, print_plan
    from agon.runs.manifest import folder_kind
    from agon.runs.matrix import read_matrix

    # A matrix that is there is told of also without --resume.
    before = read_matrix(out) if folder_kind(out) == "matrix" else matrix_in(out, resume=options.resume)
    plan = adopt(plan, before)
    check_plan(plan, out)
    states = cell_states(plan, out)
    for line in stuck_cells(plan, out, states):
        tell(line)
    if options.json:
        print_json({"cells": cells_json(plan, states)})
    else:
        print_plan(plan, states)
        print(_disk_line(plan, out))
    return 0


def _disk_line(plan: Plan, out: Path) -> str:
    """Say what all cells write together, and what there is."""
    from agon.runs.space import free_disk_bytes, readable_size

    total = sum(plan.budgets[cell.arms[0]].disk.total for cell in plan.cells)
    return (
        f"disk, estimated: {readable_size(total)} at most for {len(plan.cells)} trainings, without evaluations "
        f"({readable_size(free_disk_bytes(out))} free)"
    )


def _run(plan: Plan, out: Path, options: Namespace) -> int:
    from agon.ablation.run import run_matrix
    from agon.cli.comparison import print_comparison
    from agon.cli.matrix_table import print_plan
    from agon.cli.progress import MatrixProgress

    # What ends the matrix is loaded before it: hours later the installed files may be others.
    from agon.comparison.report import write_compared

    if not options.json:
        print_plan(plan, None)
        print(_disk_line(plan, out))
    with MatrixProgress() as progress:
        try:
            failures = run_matrix(
                plan,
                out,
                resume=options.resume,
                num_parallel=options.parallel or _default_parallel(plan),
                say=progress.say,
                on_progress=progress.update,
            )
        except KeyboardInterrupt:
            print(f"agon: stopped; continue with --resume --out {out}", file=sys.stderr)
            return EXIT_INTERRUPTED
        progress.say("comparing")
        report = out / "report.html"
        comparison = write_compared([out], report, say=tell)
    if comparison is not None and not options.json:
        print_comparison(comparison)
    return _tell_end(plan, out, report, failures, is_json=options.json)


def _default_parallel(plan: Plan) -> int:
    """One cell for each CUDA device, which it believes to be its own, or else for each core."""
    from agon.ablation.jobs import default_parallel
    from agon.ablation.launch import cuda_devices

    num_devices = 0 if plan.base.model.device == "cpu" else len(cuda_devices())
    return num_devices or default_parallel()


def _tell_end(plan: Plan, out: Path, report: Path, failures: list[Failure], *, is_json: bool) -> int:
    from agon.ablation.run import adopt, cell_states, describe_states
    from agon.cli.matrix_table import cells_json
    from agon.runs.matrix import read_matrix

    plan = adopt(plan, read_matrix(out))
    states: dict[str, CellState] = cell_states(plan, out)
    if is_json:
        failed: list[dict[str, Any]] = [
            {"cell": failure.name, "reason": failure.reason, "log": str(failure.log)} for failure in failures
        ]
        print_json({"cells": cells_json(plan, states), "failed": failed, "report": str(report)})
    else:
        print(f"cells: {describe_states(states)}")
        print(f"report: {report}")
    for failure in failures:
        tell(str(failure))
    if failures:
        print(
            f"agon: {len(failures)} of {len(states)} cells failed; when the cause is mended, continue with --resume --out {out}",
            file=sys.stderr,
        )
        return failures[0].exit_code
    return 0


def _names(value: str) -> list[str]:
    return [text(name.strip()) for name in value.split(",")]


def _seeds(value: str) -> list[int]:
    try:
        seeds = [int(seed) for seed in value.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no list of whole numbers: write 0,1,2") from None
    if any(seed < 0 for seed in seeds):
        raise argparse.ArgumentTypeError(f"{value!r} holds a negative seed: write 0 or more")
    return seeds


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is no number of processes: write 1 or more")
    return int(value)
