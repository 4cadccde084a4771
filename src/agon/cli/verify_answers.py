"""`agon verify math|numeric|exact`: one answer, or labelled rows."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from agon.cli.common import EXIT_FAILED, Subcommands, add_json, filled, print_json, text
from agon.cli.verify_options import EXIT_CODES, add_limits, read_text, refuse, verifier_settings
from agon.errors import ConfigError

if TYPE_CHECKING:
    from agon.config import VerifierSettings

_KINDS = {
    "math": "mathematical answers: numbers, formulas, sets, intervals",
    "numeric": "answers that are one number",
    "exact": "answers that are a text",
}
_SHOWN = 20
# What rows of --pairs may be told apart by.
_GROUPS = ("kind", "tier", "tag")


def add_parsers(kinds: Subcommands) -> None:
    """Add one command for each verifier of answers."""
    for verifier, what in _KINDS.items():
        _add_parser(kinds, verifier, what)


def _add_parser(kinds: Subcommands, verifier: str, what: str) -> None:
    parser = kinds.add_parser(
        verifier,
        help=f"check {what}",
        description=f"Check {what}: one answer (--gold with --answer or --completion), or labelled rows (--pairs). {EXIT_CODES}",
    )
    parser.add_argument(
        "--gold", type=filled, metavar="G", help="the right answer; one that starts with a minus is written --gold=-x"
    )
    parser.add_argument("--answer", metavar="TEXT", help="an answer; likewise --answer=-x")
    parser.add_argument(
        "--completion", metavar="TEXT", help="a whole output, in which the answer is looked for; - reads standard input"
    )
    parser.add_argument(
        "--pairs",
        type=text,
        metavar="FILE",
        help="rows of gold, equal (true or false), and pred (an answer) or completion (a whole output), in JSONL, JSON, CSV or Parquet",
    )
    parser.add_argument(
        "--answer-style",
        choices=("boxed", "tags", "stated"),
        help="how a whole output marks its answer; stated takes what it says its answer is, marked or not "
        "(default: boxed for --completion, as in training; stated for --pairs)",
    )
    for name in _GROUPS:
        parser.add_argument(
            f"--{name}", action="append", metavar="NAME", help=f"of --pairs, judge only rows with this {name}"
        )
    parser.add_argument("--all", action="store_true", help=f"of --pairs, list every row that disagrees, not {_SHOWN}")
    add_limits(parser, "timeout_s")
    add_json(parser)
    parser.set_defaults(run=verify_answers, verifier=verifier)


def verify_answers(options: Namespace) -> int:
    """`agon verify math|numeric|exact`."""
    settings = verifier_settings(options)
    if options.pairs is not None:
        refuse(options, ("gold", "answer", "completion"), "with --pairs, whose rows hold them")
        return _verify_pairs(options, settings)
    refuse(options, (*_GROUPS, "all"), "without --pairs")
    if options.gold is None or (options.answer is None) == (options.completion is None):
        raise ConfigError("give --pairs FILE, or --gold G with either --answer TEXT or --completion TEXT")
    if options.answer is not None:
        refuse(options, ("answer_style",), "with --answer: it says where in a --completion the answer is")
    return _verify_one(options, settings)


def _verify_one(options: Namespace, settings: VerifierSettings) -> int:
    from agon.audit.judge import Check, judge_one
    from agon.audit.reading import answered, problem_for, read_whole
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
        check = read_whole(problem, whole, options.answer_style or "boxed")
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
    from agon.audit.judge import judge_all
    from agon.audit.pairs import check_of, disagreements, read_pairs, summarize
    from agon.cli.progress import ChecksProgress
    from agon.cli.verdicts import pairs_json, print_pairs
    from agon.tasks.reader import open_file

    only = {name: getattr(options, name) for name in _GROUPS if getattr(options, name)}
    table = open_file(options.pairs, key="--pairs")
    pairs = read_pairs(table, verifier=options.verifier, only=only)
    reading = options.answer_style or "stated"
    with ChecksProgress("rows") as progress:
        judged = judge_all([check_of(pair, reading) for pair in pairs.rows], settings, progress.update)
    summary, faults = summarize(judged), disagreements(judged)
    shown = None if options.all else _SHOWN
    if options.json:
        print_json(pairs_json(pairs, summary, faults, shown=shown))
    else:
        print_pairs(pairs, summary, faults, shown=shown)
    return EXIT_FAILED if pairs.bad or summary["errors"] else 0
