"""What the kinds of `agon verify` share: limits, exit codes, texts from files and pipes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from agon.errors import ConfigError, DataError

if TYPE_CHECKING:
    from agon.config import VerifierSettings

EXIT_CODES = (
    "Exit code: 0 if everything that was asked got a verdict, whatever it is; 1 if a check failed by the checker's own fault, or a "
    "row or file could not be read; 2 for a usage error: a wrong argument, path or column."
)
_OF_PROGRAMS = "code_timeout_s"


def add_limits(parser: ArgumentParser, *timeouts: str) -> None:
    """Add what bounds a check. `timeouts` are the settings that `--timeout` stands for; one of them may be that of programs."""
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds one check may take")
    parser.set_defaults(timeouts=timeouts)
    if _OF_PROGRAMS in timeouts:
        parser.add_argument(
            "--unsafe-code-execution",
            action="store_true",
            help="run programs also where the system cannot isolate them",
        )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the checkers: verifier.workers=8"
    )


def verifier_overrides(options: Namespace) -> list[str]:
    """Return the settings of the checkers that the arguments change, as overrides.

    Raises:
        ConfigError: --set names a setting of another table.
    """
    for override in options.set:
        if not override.strip().startswith("verifier."):
            raise ConfigError(f"--set {override!r}: only settings of the table verifier have a meaning here")
    overrides = list(options.set)
    if options.timeout is not None:
        overrides += [f"verifier.{name}={options.timeout}" for name in options.timeouts]
    if getattr(options, "unsafe_code_execution", False):
        overrides.append("verifier.unsafe_code_execution=true")
    return overrides


def verifier_settings(options: Namespace) -> VerifierSettings:
    """Return the limits of the checkers that the arguments ask for.

    Raises:
        ConfigError: one cannot be used.
    """
    from agon.recipe import settings_from

    return settings_from({}, verifier_overrides(options), source="arguments").verifier


def read_text(path: str, option: str) -> str:
    """Return the text of a file, or of standard input for `-`.

    Raises:
        ConfigError: there is no such file.
        DataError: it cannot be read, or is not UTF-8.
    """
    where = "standard input" if path == "-" else path
    try:
        if path != "-":
            content = Path(path).read_bytes()
        elif sys.stdin is None:
            raise DataError(f"{option} is -, but standard input is closed: give text, or a pipe")
        else:
            content = sys.stdin.buffer.read()
    except FileNotFoundError:
        raise ConfigError(f"{option} is {path!r}, which does not exist: give a file, or - for standard input") from None
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror}): give {option} another file") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 at byte {error.start}: save it as UTF-8") from None


def refuse(options: Namespace, names: tuple[str, ...], why: str) -> None:
    """Refuse arguments that would have no effect."""
    for name in names:
        value = getattr(options, name)
        # 0 equals False, and was given.
        if value is not None and value is not False:
            raise ConfigError(f"--{name.replace('_', '-')} has no meaning {why}: leave it out")
