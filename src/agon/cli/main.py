"""`agon`: parse, check settings, make one call.

Each command is a file: its parser and its function. What is slow to load (settings, torch) is imported inside the function, so that
help and reports answer at once.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import NoReturn

from agon import __version__
from agon.cli import ablate, compare, data, doctor, evaluate, export, report, serve, solve, train, verify
from agon.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, Parser, documents_only, tell
from agon.cli.streams import lossy_stderr
from agon.errors import AgonError
from agon.signals import termination_as_interrupt, without_hung_threads

# What Python says of ~NAME where nobody has that name.
_HOMELESS = "Could not determine home directory"
_COMMANDS = (train, ablate, evaluate, compare, solve, serve, export, report, verify, data, doctor)


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(prog="agon", description="Train small reasoning models in pairs: one drafts, the other challenges.")
    parser.add_argument("--version", action="version", version=f"agon {__version__}")
    subcommands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subcommands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 usage or configuration, 3 diverged, 130 interrupted."""
    _open_closed_streams()
    options = build_parser().parse_args(arguments)
    return run_guarded(lambda: _run(options))


def console() -> NoReturn:
    """Run the command that this process was started for, and end it."""
    sys.exit(without_hung_threads(main()))


def _run(options: Namespace) -> int:
    with documents_only() if getattr(options, "json", False) else nullcontext():
        return options.run(options)


def run_guarded(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; an expected failure is told in one line."""
    # Idle OpenMP threads that spin cost a step several times its work when two trainings share the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with lossy_stderr():
        try:
            with termination_as_interrupt():
                code = command()
            # Here, so that a full disk behind a redirection is told as well.
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            print("agon: interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED
        except SystemExit as ended:
            if _is_closed_pipe(ended):
                return EXIT_FAILED
            # No command of ours does.
            tell(f"a module of your own or a library called sys.exit({ended.code!r}), which ended the command: mend it")
            return EXIT_FAILED
        except Exception as error:
            code = _tell(error)
            if code is None:
                raise
            return code


def _open_closed_streams() -> None:
    """Let the null device stand for what the shell has closed (`>&-`): print has nowhere to go, and the next file to be opened would get
    that number, and with it what a library prints. Whoever reads standard input is still told that it is closed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            if name != "stdin":
                setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _is_closed_pipe(ended: SystemExit) -> bool:
    """Tell whether it was rich that ended a command, as it does where it prints a table and the reader of the pipe has seen enough.

    It has sent the rest of standard output to the null device then.
    """
    *_, (last, _) = traceback.walk_tb(ended.__traceback__)
    return last.f_globals.get("__name__") == "rich.console"


def _tell(error: Exception) -> int | None:
    """Tell the user of an expected failure and return the exit code, or None for a failure that is our own mistake."""
    if isinstance(error, BrokenPipeError):
        # The reader of a pipe (`| head`) has seen enough. Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    if _is_out_of_memory(error):
        tell(
            "out of memory: lower rollout.max_rows, train.tokens_per_microbatch or adapter.rank, or take a smaller model"
        )
        return EXIT_FAILED
    if _is_failed_device(error):
        tell(f"the device failed ({str(error).splitlines()[0]}): look after it; a training: continue with --resume")
        return EXIT_FAILED
    if isinstance(error, (AgonError, OSError)):
        # An OSError was refused by the system where no stage expected it, such as a name that is too long.
        tell(str(error))
        return error.exit_code if isinstance(error, AgonError) else EXIT_FAILED
    if isinstance(error, RuntimeError) and _HOMELESS in str(error):
        tell("a path begins with ~ and a name that nobody has here: write the folder out")
        return EXIT_FAILED
    return None


def _is_out_of_memory(error: Exception) -> bool:
    # torch has no class of its own for a CPU that is out of memory.
    words = ("can't allocate memory", "out of memory")
    is_torch = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return isinstance(error, MemoryError) or is_torch


def _is_failed_device(error: Exception) -> bool:
    # torch's own class for it, AcceleratorError, is not that of every error of a driver, and torch may not be loaded.
    return isinstance(error, RuntimeError) and str(error).startswith(("CUDA error", "CUDA driver error", "NCCL error"))


if __name__ == "__main__":
    console()
