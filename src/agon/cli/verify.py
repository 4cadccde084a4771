"""`agon verify`: what the programs that check answers decide, on one answer, on labelled rows, on code and on a whole run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.cli.common import EXIT_FAILED, Subcommands, add_json, print_json, text
from agon.errors import ConfigError, DataError
from agon.records import ANSWER_STYLES

if TYPE_CHECKING:
    from agon.config import VerifierSettings

_ANSWER_VERIFIERS = {
    "math": "mathematical answers: numbers, formulas, sets, intervals",
    "numeric": "answers that are one number",
    "exact": "answers that are a text",
}
_EXIT_CODES = (
    "Exit code: 0 if everything that was asked got a verdict, whatever it is; 1 if a check failed by the checker's own fault, or a "
    "row or file could not be read; 2 for a usage error."
)
_SHOWN = 20


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "verify",
        help="check answers, programs, or a run's verdicts",
        description=f"Ask the programs that check answers. {_EXIT_CODES}",
    )
    kinds: Any = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    for verifier, what in _ANSWER_VERIFIERS.items():
        _add_answers(kinds, verifier, what)


def _add_answers(kinds: Subcommands, verifier: str, what: str) -> None:
    parser = kinds.add_parser(
        verifier,
        help=f"check {what}",
        description=f"Check {what}: one answer (--gold with --answer or --completion), or labelled rows (--pairs). {_EXIT_CODES}",
    )
    parser.add_argument("--gold", type=text, metavar="G", help="the right answer")
    parser.add_argument("--answer", metavar="TEXT", help="an answer")
    parser.add_argument(
        "--completion", metavar="TEXT", help="a whole output, in which the answer is looked for; - reads standard input"
    )
    parser.add_argument(
        "--pairs",
        type=text,
        metavar="FILE",
        help="rows of gold, equal (true or false), and pred (an answer) or completion (a whole output); other fields are kept",
    )
    parser.add_argument(
        "--answer-style", choices=ANSWER_STYLES, help="how a completion marks its answer (default: boxed)"
    )
    for name in ("kind", "tier", "tag"):
        parser.add_argument(
            f"--{name}", action="append", metavar="NAME", help=f"of --pairs, judge only rows with this {name}"
        )
    parser.add_argument("--all", action="store_true", help=f"of --pairs, list every row that disagrees, not {_SHOWN}")
    add_limits(parser)
    add_json(parser)
    parser.set_defaults(run=verify_answers, verifier=verifier)


def add_limits(parser: ArgumentParser) -> None:
    """Add what bounds a check."""
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds one check may take")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the checkers: verifier.workers=8"
    )


def verify_answers(options: Namespace) -> int:
    """`agon verify math|numeric|exact`."""
    settings = verifier_settings(options)
    if options.pairs is not None:
        _refuse(options, ("gold", "answer", "completion"), "with --pairs, whose rows hold them")
        return _verify_pairs(options, settings)
    _refuse(options, ("kind", "tier", "tag", "all"), "without --pairs")
    if options.gold is None or (options.answer is None) == (options.completion is None):
        raise ConfigError("give --pairs FILE, or --gold G with either --answer TEXT or --completion TEXT")
    if options.answer is not None:
        _refuse(options, ("answer_style",), "with --answer: it says where in a --completion the answer is")
    return _verify_one(options, settings)


def _verify_one(options: Namespace, settings: VerifierSettings) -> int:
    from agon.audit.judge import Check, judge_one, written
    from agon.audit.pairs import answered, problem_for
    from agon.cli.verdicts import print_verdict, verdict_json
    from agon.tasks.rows import UnusableRow
    from agon.verifiers.registry import open_verifiers

    try:
        problem = problem_for(options.gold, options.verifier)
    except UnusableRow as error:
        raise ConfigError(f"--gold cannot be used: {error}") from None
    if options.answer is not None:
        check = Check(problem, answered(options.answer), "tags", None)
    else:
        whole = read_text("-", "--completion") if options.completion == "-" else options.completion
        check = Check(problem, written(whole), options.answer_style or "boxed", None)
    verifiers = open_verifiers(settings)
    try:
        judged = judge_one(verifiers, check)
    finally:
        verifiers.close()
    if options.json:
        print_json(verdict_json(judged))
    else:
        print_verdict(judged)
    return EXIT_FAILED if judged.verdict.is_masked else 0


def _verify_pairs(options: Namespace, settings: VerifierSettings) -> int:
    from agon.audit.pairs import disagreements, judge_pairs, read_pairs, summarize
    from agon.cli.progress import ChecksProgress
    from agon.cli.verdicts import pairs_json, print_pairs
    from agon.tasks.reader import open_file

    only = {name: getattr(options, name) for name in ("kind", "tier", "tag") if getattr(options, name)}
    table = open_file(options.pairs, key="--pairs")
    pairs = read_pairs(table, verifier=options.verifier, only=only)
    style = options.answer_style or "boxed"
    with ChecksProgress("rows") as progress:
        judged = judge_pairs(pairs, style=style, settings=settings, progress=progress.update)
    summary, faults = summarize(judged), disagreements(judged)
    shown = None if options.all else _SHOWN
    if options.json:
        print_json(pairs_json(pairs, summary, faults, shown=shown))
    else:
        print_pairs(pairs, summary, faults, shown=shown)
    return EXIT_FAILED if pairs.bad or summary["errors"] else 0


def verifier_settings(options: Namespace) -> VerifierSettings:
    """Return the limits of the checkers that the arguments ask for.

    Raises:
        ConfigError: one cannot be used.
    """
    from agon.recipe import settings_from

    others = [override for override in options.set if not override.strip().startswith("verifier.")]
    if others:
        raise ConfigError(f"--set {others[0]!r}: only settings of the table verifier have a meaning here")
    overrides = list(options.set)
    if options.timeout is not None:
        overrides.append(f"verifier.timeout_s={options.timeout}")
    return settings_from({}, overrides, source="agon verify").verifier


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


def _refuse(options: Namespace, names: tuple[str, ...], why: str) -> None:
    """Refuse arguments that would have no effect."""
    for name in names:
        if getattr(options, name) not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')} has no meaning {why}: leave it out")
