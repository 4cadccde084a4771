"""`agon eval --evaluations LABEL,...`: several measurements of one subject in one start."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from agon.cli.common import text
from agon.errors import ConfigError

if TYPE_CHECKING:
    from agon.config import Settings
    from agon.evaluation.evaluate import Evaluated
    from agon.evaluation.load import Opened
    from agon.evaluation.request import Measurement, Wish
    from agon.tasks.data import TaskData

# What a label says itself, or what is one file's alone.
_OF_ONE = ("protocol", "adapter", "drafts", "layers", "doubt", "threshold", "label")


def labels(value: str) -> list[str]:
    """Parse a list of labels."""
    return [text(label.strip()) for label in value.split(",")]


def wishes_of(options: Namespace) -> dict[str, Wish]:
    """Return what each label of `--evaluations` asks for, in the order given.

    A label's own `-dev` stands; the others are measured on `--split`.

    Raises:
        ConfigError: a label stands for nothing or is there twice, or an option was given too that says what a label says.
    """
    from agon.ablation.labels import MICROSCOPE, wish_named

    _refuse_options_of_one(options)
    wishes: dict[str, Wish] = {}
    for label in options.evaluations:
        if label == MICROSCOPE:
            raise ConfigError(
                f"--evaluations names {label}, which is no protocol: look at the pair with `agon eval {options.subject} --microscope`"
            )
        if label in wishes:
            raise ConfigError(f"--evaluations names {label} twice: leave one out")
        wish = wish_named(label)
        # Filed as a command for it alone would file it: a matrix files its own under the bare label.
        split = "dev" if options.split == "dev" else wish.split
        wishes[label] = replace(wish, label=None, split=split)
    return wishes


def check_all(wishes: Mapping[str, Wish], settings: Settings, task: TaskData, *, is_trained: bool) -> None:
    """Check before a model is loaded that every label can be measured, and that no two come to the same.

    Raises:
        ConfigError: one cannot be, or two do.
        DataError: there is no problem to measure with.
    """
    from agon.ablation.labels import blamed_on
    from agon.evaluation.request import check_ahead, possible_measurements

    found: dict[Measurement, str] = {}
    for label, wish in wishes.items():
        with blamed_on(label):
            check_ahead(wish, settings, task, is_trained=is_trained)
        for measurement in possible_measurements(wish, settings, is_trained=is_trained):
            first = found.setdefault(measurement, label)
            if first != label:
                raise ConfigError(
                    f"--evaluations names {first} and {label}, which can come to the same measurement: leave one out"
                )


def measure_each(opened: Opened, wishes: Mapping[str, Wish]) -> Iterator[Evaluated]:
    """Give the measurements one by one, as they are made. What they have in common, such as a draft, is sampled once.

    Raises:
        ConfigError: one of them does not fit the context; nothing is sampled then.
    """
    from agon.ablation.labels import blamed_on
    from agon.cli.progress import EvaluationProgress
    from agon.evaluation.request import Prepared, measure_prepared, prepare

    opened = replace(opened, session=opened.session.remembering())
    prepared: dict[str, Prepared] = {}
    for label, wish in wishes.items():
        with blamed_on(label):
            prepared[label] = prepare(opened, wish)
    for number, label in enumerate(prepared, start=1):
        with blamed_on(label), EvaluationProgress() as progress:
            progress.say(f"evaluation {number} of {len(prepared)}: {label}")
            evaluated = measure_prepared(prepared[label], progress=progress.update)
        yield evaluated


def _refuse_options_of_one(options: Namespace) -> None:
    given = [f"--{name}" for name in _OF_ONE if getattr(options, name) is not None]
    if options.direction != "dev":
        given.append("--direction")
    if options.microscope:
        given.append("--microscope")
    if given:
        raise ConfigError(
            f"{given[0]} does not go with --evaluations, whose labels say what is measured: leave one out"
        )
