"""The process of one cell of a matrix: `python -m agon.cli.cell [--base] RECIPE FOLDER LABEL...`. `agon ablate` starts it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from agon.cli.common import EXIT_INTERRUPTED, Parser, text
from agon.cli.main import run_guarded
from agon.signals import without_hung_threads


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and measure a cell, or measure the base, and return the exit code."""
    parser = Parser(prog="python -m agon.cli.cell", description="Train and measure one cell of a matrix.")
    parser.add_argument("recipe", type=text, metavar="RECIPE", help="the cell's settings")
    parser.add_argument("folder", type=text, metavar="FOLDER", help="its run folder, or that of the base")
    parser.add_argument("labels", nargs="*", metavar="LABEL", help="evaluations to make")
    parser.add_argument("--base", action="store_true", help="measure the untrained base")
    return run_guarded(partial(_work, parser.parse_args(arguments)))


def _work(options: Namespace) -> int:
    from agon.ablation.measure import measure_base, measure_run
    from agon.ablation.worker import train_cell, wait_until_free
    from agon.recipe import load_recipe

    settings, folder = load_recipe(Path(options.recipe)), Path(options.folder)
    say = partial(print, flush=True)
    if options.base:
        wait_until_free(folder, say=say)
        measure_base(folder, settings, options.labels, say=say)
        return 0
    if train_cell(settings, folder, say=say):
        return EXIT_INTERRUPTED
    _renew_process()
    measure_run(folder, options.labels, asked=settings, say=say)
    return 0


def _renew_process() -> None:
    """Begin this process anew where it has run vLLM, which a process can do once: the cell is trained, and what is left is to measure it."""
    from agon.rollout.vllm_server import was_started

    if was_started():
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    sys.exit(without_hung_threads(main()))
