"""One function a command. What loads torch is imported inside, so that help and reports answer at once."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.config import Settings, TaskSettings
from agon.errors import ConfigError, RunError
from agon.recipe import describe_settings, load_recipe, settings_from
from agon.records import NAMED_TASKS
from agon.runs.manifest import folder_kind, read_config

if TYPE_CHECKING:
    from agon.evaluation.load import Opened

_INTERRUPTED = 130
_QUICKSTART = "quickstart"
_DATA_ENDINGS = (".jsonl", ".ndjson", ".gz", ".json", ".parquet", ".csv", ".tsv")
# What another task leaves as it is: how the model was taught to read and answer, and how much it can read.
_NOT_OF_THE_DATA = frozenset({"wording", "answer_style", "max_prompt_tokens"})


def train(options: Namespace) -> int:
    """`agon train`."""
    name = options.recipe or _QUICKSTART
    out = Path(options.out) if options.out else Path("runs") / Path(name).name.removesuffix(".toml")
    is_parent = folder_kind(out) == "parent"
    if name == _QUICKSTART and (is_parent or options.recipe or not options.resume):
        return _train_quickstart(options, out)
    if options.resume and not options.recipe:
        settings = settings_from(read_config(out), options.set, source=str(out / "config.json"))
    else:
        settings = _settings_of(name, options.set)
    if options.dry_run:
        return _dry_run([settings])
    return _train_one(settings, out, resume=options.resume)


def _train_quickstart(options: Namespace, out: Path) -> int:
    from agon.ablation.quickstart import DEFAULT_RUN, quickstart_cells, run_quickstart
    from agon.cli.progress import CellsProgress
    from agon.cli.table import print_table

    settings = _settings_of("quickstart-agon", options.set)
    cells = quickstart_cells(settings)
    if options.dry_run:
        return _dry_run([cell.settings for cell in cells])
    progress = CellsProgress({cell.name: cell.settings.train.steps for cell in cells})
    with progress:
        result = run_quickstart(
            settings, out, resume=options.resume, on_progress=progress.update, on_evaluation=progress.say_evaluation
        )
    print_table(result.rows, seed=settings.train.seed)
    print(f"report: {result.report}")
    print(f'try: agon solve {out} "12 7 5 = 24"  ({out} stands for its run {DEFAULT_RUN})')
    return 0


def _train_one(settings: Settings, out: Path, *, resume: bool) -> int:
    from agon.cli.progress import StepProgress
    from agon.train.run import Watcher, resume_training, run_training

    with StepProgress(settings.train.steps) as progress:
        watcher = Watcher(say=progress.say, on_step=progress.on_step)
        trained = resume_training(out, settings, watcher) if resume else run_training(settings, out, watcher)
    if trained.was_stopped:
        print(
            f"agon: stopped after step {trained.completed_steps}, saved; continue with --resume --out {out}",
            file=sys.stderr,
        )
        return _INTERRUPTED
    print(f"trained {trained.completed_steps} steps into {out}; next: agon eval {out}, agon report {out}")
    return 0


def _dry_run(all_settings: list[Settings]) -> int:
    from agon.train.budget import describe_budget, plan_budget

    for settings in all_settings:
        print(describe_settings(settings))
        print(describe_budget(plan_budget(settings)))
    return 0


def evaluate(options: Namespace) -> int:
    """`agon eval`."""
    from agon.cli.progress import EvaluationProgress
    from agon.cli.table import print_evaluation
    from agon.evaluation.request import Wish, measure
    from agon.runs.evaluations import check_label, write_evaluation

    if options.label is not None:
        check_label(options.label)
    run, opened = _open_subject(options)
    if run is None and options.label is not None:
        raise ConfigError(
            "--label names a file in a run folder, but a base model has none: leave it out, and keep --json"
        )
    wish = Wish(
        protocol=options.protocol,
        direction=options.direction,
        adapter=options.adapter,
        num_drafts=options.drafts,
        split=options.split,
        label=options.label,
    )
    with opened.session, EvaluationProgress() as progress:
        evaluated = measure(opened, wish, progress=progress.update)
    if run is not None:
        flat = [match for of_problem in evaluated.matches for match in of_problem]
        write_evaluation(run, evaluated.result["label"], evaluated.result, flat)
    if options.json:
        _print_json(evaluated.result)
    else:
        print_evaluation(evaluated.result)
    return 0


def solve(options: Namespace) -> int:
    """`agon solve`."""
    from agon.cli.table import print_match
    from agon.evaluation.load import open_run
    from agon.evaluation.solve import solve as play_one
    from agon.evaluation.solve import solved_json
    from agon.runs.parent import default_run

    opened = open_run(default_run(Path(options.subject)))
    for note in opened.notes:
        print(f"agon: {note}", file=sys.stderr)
    with opened.session:
        match = play_one(opened, options.problem, gold=options.gold, direction=options.direction, seed=options.seed)
    if options.json:
        _print_json(solved_json(match))
    else:
        print_match(match)
    return 0


def report(options: Namespace) -> int:
    """`agon report`."""
    from agon.report.write import write_report

    runs = [Path(run) for run in options.runs]
    out = Path(options.out) if options.out else runs[0] / "report.html"
    write_report(runs, out)
    print(f"report: {out}")
    return 0


def _open_subject(options: Namespace) -> tuple[Path | None, Opened]:
    from agon.evaluation.load import open_base, open_run
    from agon.runs.parent import default_run

    overrides = [*_task_overrides(options.task), *options.set]
    if options.samples is not None:
        overrides.append(f"evaluation.samples={options.samples}")
    path = Path(options.subject)
    if folder_kind(path) is not None:
        run = default_run(path)
        return run, open_run(run, tuple(overrides), step=options.checkpoint)
    if options.checkpoint is not None:
        raise RunError(f"--checkpoint was given, but {path} is not a run folder: leave it out for a base model")
    if options.subject == _QUICKSTART:
        return None, open_base(_settings_of("quickstart-agon", overrides))
    if not path.exists() and (path.parts[0] in ("runs", ".", "..") or path.is_absolute() or len(path.parts) > 2):
        raise RunError(f"{path} does not exist: give the --out folder of an `agon train`, a model folder or a Hub name")
    if options.task is None:
        raise ConfigError(
            f"{options.subject} is no run folder; to measure it as a base model, say on what with --task NAME|PATH"
        )
    return None, open_base(settings_from({"model": {"base": options.subject}}, overrides, source="agon eval"))


def _task_overrides(task: str | None) -> list[str]:
    """Point the settings of a run at other data: what it said about its own data is forgotten."""
    if task is None:
        return []
    own = {name: field.default for name, field in TaskSettings.model_fields.items() if name not in _NOT_OF_THE_DATA}
    is_file = task not in NAMED_TASKS and (Path(task).suffix in _DATA_ENDINGS or Path(task).exists())
    wanted = own | ({"name": "custom", "test_path": task} if is_file else {"name": task})
    return [
        f"task.{name}={'none' if value is None else json.dumps(value, ensure_ascii=False)}"
        for name, value in wanted.items()
    ]


def _settings_of(name: str, overrides: list[str]) -> Settings:
    """Read a recipe by its path, or a preset by its name."""
    path = Path(name)
    if path.suffix == ".toml":
        return load_recipe(path, overrides)
    recipes = [file for file in resources.files("agon.recipes").iterdir() if file.name.endswith(".toml")]
    presets = {file.name.removesuffix(".toml"): file for file in recipes}
    if name not in presets:
        known = ", ".join(sorted(presets))
        raise ConfigError(f"{name!r} is neither a .toml file nor a preset; presets: {_QUICKSTART}, {known}")
    with resources.as_file(presets[name]) as recipe:
        return load_recipe(recipe, overrides)


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False, allow_nan=False))
