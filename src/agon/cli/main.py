"""`agon`: parse, check settings, make one call. Heavy imports happen inside the command that needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from agon import __version__
from agon.errors import AgonError
from agon.records import PROTOCOLS
from agon.signals import termination_as_interrupt

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class _Subcommands(Protocol):
    def add_parser(self, name: str, *, help: str, description: str) -> _Parser: ...


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line: what was wrong and where help is."""
        self.exit(EXIT_USAGE, f"agon: {' '.join(message.splitlines())}; see `{self.prog} --help`\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="agon", description="Train small reasoning models in pairs: one drafts, the other challenges."
    )
    parser.add_argument("--version", action="version", version=f"agon {__version__}")
    subcommands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_train(subcommands)
    _add_eval(subcommands)
    _add_solve(subcommands)
    _add_report(subcommands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 usage or configuration, 3 diverged, 130 interrupted."""
    # Idle OpenMP threads that spin cost a step several times its work when two trainings share the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    options = build_parser().parse_args(arguments)
    # Loaded after the arguments are known to be right: settings alone cost half of the time that `--help` may take.
    from agon.cli import commands

    try:
        with termination_as_interrupt():
            code = getattr(commands, options.run)(options)
        # Here, so that a full disk behind a redirection is told as well.
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("agon: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        code = _tell(error)
        if code is None:
            raise
        return code


def _tell(error: Exception) -> int | None:
    """Tell the user of an expected failure and return the exit code, or None for a failure that is our own mistake."""
    if isinstance(error, BrokenPipeError):
        # The reader of a pipe (`| head`) has seen enough. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    if _is_out_of_memory(error):
        _say(
            "out of memory: lower rollout.max_rows, train.tokens_per_microbatch or adapter.rank, or take a smaller model"
        )
        return EXIT_FAILED
    if isinstance(error, (AgonError, OSError)):
        # An OSError was refused by the system where no stage expected it, such as a name that is too long.
        _say(error)
        return error.exit_code if isinstance(error, AgonError) else EXIT_FAILED
    return None


def _text(value: str) -> str:
    """Refuse an empty argument, which is most often an unset variable of a script."""
    if not value.strip():
        raise argparse.ArgumentTypeError("it is empty: give a value, or leave it out")
    return value


def _say(error: object) -> None:
    """Print an error as one line, whatever a library or a file name put into it."""
    print(f"agon: {' '.join(str(error).splitlines())}", file=sys.stderr)


def _is_out_of_memory(error: Exception) -> bool:
    # torch has no class of its own for a CPU that is out of memory.
    words = ("can't allocate memory", "out of memory")
    is_torch = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return isinstance(error, MemoryError) or is_torch


def _add_train(subcommands: _Subcommands) -> None:
    train = subcommands.add_parser(
        "train",
        help="train one recipe, or the quickstart's four",
        description="Train one recipe. Without one: the quickstart, which trains GRPO (twice), cooperative exchange and Agon on an "
        "embedded model, evaluates them side by side and writes a report (about five minutes on two cores).",
    )
    train.add_argument(
        "recipe", nargs="?", type=_text, metavar="RECIPE", help="a .toml file or a preset's name (default: quickstart)"
    )
    train.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override one setting: train.steps=50"
    )
    train.add_argument("--out", type=_text, metavar="DIR", help="the run folder (default: runs/NAME)")
    train.add_argument("--resume", action="store_true", help="continue the run in --out where it stopped")
    train.add_argument("--dry-run", action="store_true", help="print the resolved settings and the budget, and stop")
    train.set_defaults(run="train")


def _add_eval(subcommands: _Subcommands) -> None:
    evaluation = subcommands.add_parser(
        "eval",
        help="measure a run or a base model",
        description="Measure a run folder, or a base model, in one protocol.",
    )
    evaluation.add_argument(
        "subject", type=_text, metavar="RUN|MODEL", help="a run folder, a model folder or a Hub name"
    )
    evaluation.add_argument(
        "--task", type=_text, metavar="NAME|PATH", help="another task than the run's: a name, or a data file"
    )
    evaluation.add_argument(
        "--protocol", choices=PROTOCOLS, help="default: cascade for a trained pair, single otherwise"
    )
    evaluation.add_argument(
        "--direction",
        choices=("a-b", "b-a", "dev"),
        default="dev",
        help="who drafts; dev chooses on the development split",
    )
    evaluation.add_argument("--adapter", choices=("a", "b", "base"), default=None, help="the one player (default: a)")
    evaluation.add_argument("--drafts", type=int, default=None, metavar="K", help="drafts of moa (1) and majority (2)")
    evaluation.add_argument("--samples", type=int, default=None, metavar="K", help="samples per problem")
    evaluation.add_argument("--split", choices=("test", "dev"), default="test", help="which problems (default: test)")
    evaluation.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the run"
    )
    evaluation.add_argument("--checkpoint", metavar="STEP", type=int, help="another checkpoint than the last")
    evaluation.add_argument("--label", type=_text, metavar="NAME", help="name of the result file in the run folder")
    evaluation.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    evaluation.set_defaults(run="evaluate")


def _add_solve(subcommands: _Subcommands) -> None:
    solve = subcommands.add_parser(
        "solve",
        help="let a trained pair solve one problem",
        description="Show draft, summary, challenge and answer of one problem.",
    )
    solve.add_argument("subject", type=_text, metavar="RUN", help="a run folder")
    solve.add_argument("problem", metavar="PROBLEM", help="the problem's text; for the quickstart: '12 7 5 = 25'")
    solve.add_argument("--direction", choices=("a-b", "b-a"), help="who drafts (default: a-b)")
    solve.add_argument("--gold", help="the right answer, if it is to be checked")
    solve.add_argument("--seed", type=int, default=0, help="seed of the sampling")
    solve.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    solve.set_defaults(run="solve")


def _add_report(subcommands: _Subcommands) -> None:
    report = subcommands.add_parser(
        "report",
        help="write one HTML file from run folders",
        description="Write one self-contained HTML file from run folders.",
    )
    report.add_argument(
        "runs", nargs="+", type=_text, metavar="RUN", help="run folders, or a quickstart's parent folder"
    )
    report.add_argument(
        "--out", type=_text, metavar="FILE", help="the HTML file (default: report.html in the first folder)"
    )
    report.set_defaults(run="report")


if __name__ == "__main__":
    sys.exit(main())
