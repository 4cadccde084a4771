"""`agon eval`: measure a run or a base model."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agon.cli.common import (
    QUICKSTART,
    SAMPLING_KEYS,
    Subcommands,
    add_json,
    holds_programs,
    is_data_file,
    print_json,
    refuse_idle,
    settings_of,
    text,
)
from agon.cli.evaluations import check_all, labels, measure_each, wishes_of
from agon.errors import ConfigError, RunError
from agon.records import CODE_TASKS, DOUBTS, PROTOCOLS

if TYPE_CHECKING:
    from agon.evaluation.evaluate import Evaluated
    from agon.evaluation.load import Opened

# What another task leaves as it is: how the model was taught to read and answer, and how much it can read.
_NOT_OF_THE_DATA = frozenset({"wording", "withholding", "answer_style", "max_prompt_tokens"})


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "eval",
        help="measure a run or a base model",
        description="Measure a run folder, or a base model, in one protocol or in several.",
    )
    parser.add_argument("subject", type=text, metavar="RUN|MODEL", help="a run folder, a model folder or a Hub name")
    parser.add_argument(
        "--task", type=text, metavar="NAME|PATH", help="another task than the run's: a name, or a data file"
    )
    _add_players(parser)
    parser.add_argument(
        "--evaluations",
        type=labels,
        metavar="LABEL,...",
        help="several in one start, as a matrix names them (single-a,cascade-a-b): they share their drafts; instead of all "
        "from --protocol to --threshold",
    )
    parser.add_argument("--samples", type=int, default=None, metavar="K", help="samples per problem")
    parser.add_argument("--split", choices=("test", "dev"), default="test", help="which problems (default: test)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the run")
    parser.add_argument("--checkpoint", metavar="STEP", type=int, help="another checkpoint than the last")
    parser.add_argument("--label", type=text, metavar="NAME", help="name of the result file in the run folder")
    parser.add_argument("--microscope", action="store_true", help="look at a run's pair itself: RUN/microscope.json")
    add_json(parser)
    parser.set_defaults(run=evaluate)


def _add_players(parser: ArgumentParser) -> None:
    """Add what says who plays, in which protocol."""
    parser.add_argument("--protocol", choices=PROTOCOLS, help="default: as it was trained; single for a base")
    parser.add_argument(
        "--direction",
        choices=("a-b", "b-a", "dev"),
        default="dev",
        help="who drafts; dev chooses on the development split",
    )
    parser.add_argument("--adapter", choices=("a", "b", "base"), default=None, help="the one player (default: a)")
    parser.add_argument(
        "--drafts",
        type=int,
        metavar="K",
        help="drafts of moa (1), majority and likeliest (2), and selective (1, by agreement 2)",
    )
    parser.add_argument(
        "--layers", type=int, metavar="L", help="layers of drafts of moa (1); each reads the one before"
    )
    parser.add_argument(
        "--doubt",
        choices=DOUBTS,
        help="what selective goes by: the draft's likelihood (default), or agreement of drafts",
    )
    parser.add_argument(
        "--threshold",
        type=_threshold,
        metavar="dev|NUMBER",
        help="selective challenges drafts below it: nats a token, or a share; dev (default) chooses on the development split",
    )


def evaluate(options: Namespace) -> int:
    """`agon eval`."""
    refuse_idle(options.set, (*SAMPLING_KEYS, "evaluation."), command="agon eval")
    if options.evaluations is not None:
        return _measure_several(options)
    if options.microscope:
        from agon.cli.microscope import examine_pair

        return examine_pair(options)
    return _measure_one(options)


def _measure_one(options: Namespace) -> int:
    from agon.cli.progress import EvaluationProgress
    from agon.cli.table import print_evaluation
    from agon.evaluation.request import Wish, check_ahead, measure
    from agon.runs.evaluations import check_label

    if options.label is not None:
        check_label(options.label)
    wish = Wish(
        protocol=options.protocol,
        direction=options.direction,
        adapter=options.adapter,
        num_drafts=options.drafts,
        split=options.split,
        label=options.label,
        layers=options.layers,
        doubt=options.doubt,
        threshold=options.threshold,
    )
    run, opened = _open_subject(options, partial(check_ahead, wish))
    if run is None and options.label is not None:
        raise ConfigError(
            "--label names a file in a run folder, but a base model has none: leave it out, and keep --json"
        )
    with opened.session, EvaluationProgress() as progress:
        evaluated = measure(opened, wish, progress=progress.update)
    _file(run, evaluated)
    if options.json:
        # Without its latency, so that the same measurement prints the same document.
        print_json(evaluated.result)
    else:
        print_evaluation(evaluated.stored)
    return 0


def _measure_several(options: Namespace) -> int:
    """Measure what the labels of `--evaluations` say; each is filed and told of at once, so that an interrupt loses one at most."""
    from agon.cli.table import print_evaluation

    wishes = wishes_of(options)
    run, opened = _open_subject(options, partial(check_all, wishes))
    results: list[dict[str, Any]] = []
    try:
        with opened.session:
            for evaluated in measure_each(opened, wishes):
                _file(run, evaluated)
                results.append(evaluated.result)
                if not options.json:
                    print_evaluation(evaluated.stored)
    finally:
        # Of a base nothing is filed: what an interrupt or a failure leaves stands in the document alone.
        if options.json and results:
            print_json({"evaluations": results})
    return 0


def _file(run: Path | None, evaluated: Evaluated) -> None:
    from agon.runs.evaluations import write_evaluation

    if run is not None:
        write_evaluation(run, evaluated.result["label"], evaluated.stored, evaluated.flat_matches)


def _threshold(value: str) -> float | Literal["dev"]:
    if value == "dev":
        return "dev"
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ArgumentTypeError(f"{value!r} is neither dev nor a number")
    return number


def _open_subject(options: Namespace, check: Callable[..., None]) -> tuple[Path | None, Opened]:
    """Open what is to be measured; `check` (settings, task, is_trained=) raises before a model is loaded."""
    from agon.evaluation.load import open_base, open_run
    from agon.recipe import settings_from
    from agon.runs.manifest import folder_kind
    from agon.runs.parent import default_run
    from agon.runs.space import require_writable

    overrides = [*_task_overrides(options.task, options.set), *options.set]
    if options.samples is not None:
        settings_from({"evaluation": {"samples": options.samples}}, source="--samples")
        overrides.append(f"evaluation.samples={options.samples}")
    path = Path(options.subject)
    if folder_kind(path) is not None:
        run = default_run(path)
        # A measurement may take hours, after which there must be a place for it.
        require_writable(run / "evaluations")
        return run, open_run(run, tuple(overrides), step=options.checkpoint, check=partial(check, is_trained=True))
    check = partial(check, is_trained=False)
    if options.checkpoint is not None:
        raise RunError(f"--checkpoint was given, but {path} is not a run folder: leave it out for a base model")
    if options.subject == QUICKSTART:
        return None, open_base(settings_of("quickstart-agon", overrides), check=check)
    if not path.exists() and (path.parts[0] in ("runs", ".", "..") or path.is_absolute() or len(path.parts) > 2):
        raise RunError(f"{path} does not exist: give the --out folder of an `agon train`, a model folder or a Hub name")
    if options.task is None:
        raise ConfigError(
            f"{options.subject} is no run folder; to measure it as a base model, say on what with --task NAME|PATH"
        )
    settings = settings_from({"model": {"base": options.subject}}, overrides, source="agon eval")
    return None, open_base(settings, check=check)


def _task_overrides(task: str | None, chosen: Sequence[str] = ()) -> list[str]:
    """Point the settings of a run at other data: what it said about its own data is forgotten. `chosen` overrides follow."""
    from agon.config import TaskSettings
    from agon.recipe import settings_from

    if task is None:
        return []
    own = {name: field.default for name, field in TaskSettings.model_fields.items() if name not in _NOT_OF_THE_DATA}
    is_file = is_data_file(task)
    wanted = own | ({"name": "custom", "test_path": task} if is_file else {"name": task})
    if is_file and holds_programs(task, chosen, key="--task"):
        wanted |= {"verifier": "code", "answer_style": "code"}
    elif task in CODE_TASKS:
        wanted["answer_style"] = "code"
    if wanted["name"] != "custom":
        settings_from({"task": {"name": task}}, source="--task")
    return [
        f"task.{name}={'none' if value is None else json.dumps(value, ensure_ascii=False)}"
        for name, value in wanted.items()
    ]
