"""Which direction of a pair development problems chose, and where only the other one was measured."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from agon.comparison.collect import Measured, Training
from agon.comparison.variants import Variant, option_for, variant_of
from agon.records import DIRECTIONS

# Evaluations whose result has no field `chosen` say it in a note.
_CHOSEN_NOTE = re.compile(r"direction (a-b|b-a) chosen on \d+ development problems")


def chosen_direction(measured: Iterable[Measured], variant: Variant) -> str | None:
    """Return the direction that was better on a run's development problems, as its evaluations say; None where none does.

    What was chosen for this very variant counts first, then its protocol's choice, then the cascade's, which controls such as a blind
    second pass take over. What was chosen by playing otherwise never counts.
    """
    ranks = {variant.protocol: 0, "cascade": 1}

    def order(item: Measured) -> tuple[bool, int, int]:
        return variant_of(item) != variant, ranks.get(item.result["protocol"], 2), len(item.label)

    for item in sorted((item for item in measured if variant_of(item).as_played == variant.as_played), key=order):
        chosen = None if item.direction is None else _choice_in(item)
        if chosen is not None:
            return chosen
    return None


def unmeasured_choices(
    arm: str, trainings: Sequence[Training], measured: Sequence[Measured], *, protocols: Collection[str] | None
) -> list[str]:
    """Say in a line for each protocol of an arm in which trainings the chosen direction was not measured, and how to measure it.

    `protocols` leaves out all others; None leaves out none.
    """
    missing: dict[tuple[Variant, str], list[Measured]] = {}
    for training in trainings:
        own = [item for item in measured if item.training is training and item.direction is not None]
        for variant in dict.fromkeys(map(variant_of, own)):
            found = [item for item in own if variant_of(item) == variant]
            chosen = chosen_direction(own, variant)
            if chosen is not None and all(item.direction != chosen for item in found):
                missing.setdefault((variant, chosen), []).append(found[0])
    return [
        _note(items, arm=arm, chosen=chosen)
        for (variant, chosen), items in missing.items()
        if protocols is None or variant.protocol in protocols
    ]


def _choice_in(item: Measured) -> str | None:
    is_chosen = item.result.get("chosen")
    if isinstance(is_chosen, bool):
        return item.direction if is_chosen else next(other for other in DIRECTIONS if other != item.direction)
    found = (_CHOSEN_NOTE.search(str(note)) for note in item.result.get("notes") or ())
    return next((match[1] for match in found if match is not None), None)


def _note(items: Sequence[Measured], *, arm: str, chosen: str) -> str:
    first, variant = items[0], variant_of(items[0])
    seeds = [str(item.training.seed) for item in items if item.training is not None and item.training.seed is not None]
    who = f"{arm}, seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}" if seeds else arm
    asked = f" ({variant.otherwise})" if variant.otherwise else ""
    others = "".join(f", and likewise {item.run}" for item in items[1:])
    return (
        f"{who}: {variant.name}{asked} was measured in direction {first.direction} alone, but development problems chose {chosen}: "
        f"run `agon eval {first.run}{_task_option(first)} --evaluations {_label(variant, chosen)}{_other_options(first, variant)}`{others}"
    )


def _label(variant: Variant, direction: str) -> str:
    """Name an evaluation as `--evaluations` reads it; the doubt that it does not name is the default."""
    details = [detail for detail in variant.label.split("-") if detail not in ("", "likelihood")]
    drafts = [f"k{variant.drafts}"] if variant.drafts > 1 else []
    cap = ["doubled-cap"] if variant.has_doubled_cap else []
    return "-".join([variant.protocol, direction, *drafts, *details, *cap])


def _task_option(item: Measured) -> str:
    """Ask for the task where it is not the run's own. Of a task without a name a result does not say the file."""
    task = str(item.result["task"])
    own = None if item.training is None else item.training.config.get("task.name")
    if own is None or task == own:
        return ""
    return f" --task {'FILE' if task == 'custom' else task}"


def _other_options(item: Measured, variant: Variant) -> str:
    """Ask for as many samples, on the split, and with the prompts, that the result was made with."""
    own = None if item.training is None else item.training.config.get("evaluation.samples")
    samples = f" --samples {item.samples}" if own is not None and own != item.samples else ""
    split = " --split dev" if item.result["split"] == "dev" else ""
    return samples + split + "".join(option_for(name, value) for name, value in variant.changed)
