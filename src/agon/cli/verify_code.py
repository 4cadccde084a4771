"""`agon verify code`: one program, or those that stand in a task's own rows."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from agon.cli.common import EXIT_FAILED, Subcommands, add_json, print_json, text
from agon.cli.verify_options import EXIT_CODES, add_limits, read_text, refuse, verifier_settings
from agon.errors import ConfigError

if TYPE_CHECKING:
    from agon.config import VerifierSettings

_SHOWN = 20
_OF_ONE = ("problem", "program", "row", "id")
_OF_MANY = ("task", "solutions", "expect", "all")


def add_parser(kinds: Subcommands) -> None:
    """Add the command."""
    parser = kinds.add_parser(
        "code",
        help="check programs against the tests of their problem",
        description="Run programs against the tests of their problem, isolated: one (--problem and --program), or those in a field of "
        f"a task's own rows (--task and --solutions). Known shapes: HumanEval, MBPP, cases, tests on standard input. {EXIT_CODES}",
    )
    parser.add_argument("--problem", type=text, metavar="FILE", help="a file with a code problem")
    parser.add_argument("--row", type=int, metavar="N", help="of --problem, the row of this number, from 1")
    parser.add_argument("--id", type=text, metavar="ID", help="of --problem, the row whose id, task_id or name is this")
    parser.add_argument("--program", type=text, metavar="FILE", help="the program; - reads standard input")
    parser.add_argument("--task", type=text, metavar="FILE|NAME", help="a file of code problems, or a named code task")
    parser.add_argument(
        "--solutions", type=text, metavar="FIELD", help="of --task, the field of each row that holds its program"
    )
    parser.add_argument(
        "--expect", choices=("correct", "wrong"), help="of --task, what the programs should be (default: correct)"
    )
    parser.add_argument("--all", action="store_true", help=f"of --task, list every row that is otherwise, not {_SHOWN}")
    add_limits(parser, "code_timeout_s")
    add_json(parser)
    parser.set_defaults(run=verify_code)


def verify_code(options: Namespace) -> int:
    """`agon verify code`."""
    settings = verifier_settings(options)
    if options.task is not None:
        refuse(options, _OF_ONE, "with --task")
        if options.solutions is None:
            raise ConfigError("--task needs --solutions FIELD: which field of its rows holds the program")
        return _verify_many(options, settings)
    refuse(options, _OF_MANY, "without --task")
    if options.problem is None or options.program is None:
        raise ConfigError("give --problem FILE with --program FILE, or --task FILE|NAME with --solutions FIELD")
    if options.row is not None and options.id is not None:
        raise ConfigError("both --row and --id were given: leave one out")
    return _verify_one(options, settings)


def _verify_one(options: Namespace, settings: VerifierSettings) -> int:
    from agon.audit.judge import judge_one
    from agon.audit.programs import Chosen, check_program, open_programs, read_problem
    from agon.cli.verdicts import shown, verdict_json
    from agon.verifiers.registry import open_verifiers

    (table,) = open_programs(options.problem, key="--problem", allows_names=False)
    problem = read_problem(table, Chosen(options.row, options.id))
    program = read_text(options.program, "--program")
    verifiers = open_verifiers(settings)
    try:
        judged = judge_one(verifiers, check_program(problem, program))
    finally:
        verifiers.close()
    if options.json:
        print_json(verdict_json(judged))
    else:
        print(f"{judged.verdict.outcome}: {shown(judged.verdict.reason, None)}")
    return EXIT_FAILED if judged.verdict.is_masked else 0


def _verify_many(options: Namespace, settings: VerifierSettings) -> int:
    from agon.audit.judge import judge_all
    from agon.audit.pairs import disagreements, summarize
    from agon.audit.programs import check_program, open_programs, read_programs
    from agon.cli.progress import ChecksProgress
    from agon.cli.verdicts import pairs_json, print_pairs

    is_expected_right = options.expect != "wrong"
    tables = open_programs(options.task, key="--task", allows_names=True)
    pairs = read_programs(tables, field=options.solutions, is_expected_right=is_expected_right)
    with ChecksProgress("programs") as progress:
        checks = [check_program(row.problem, row.text, row) for row in pairs.rows]
        judged = judge_all(checks, settings, progress.update)
    summary, faults = summarize(judged), disagreements(judged)
    limit = None if options.all else _SHOWN
    if options.json:
        expected = {"expect": "correct" if is_expected_right else "wrong"}
        print_json(expected | pairs_json(pairs, summary, faults, shown=limit))
    else:
        print_pairs(pairs, summary, faults, shown=limit)
    return EXIT_FAILED if pairs.bad or summary["errors"] else 0
