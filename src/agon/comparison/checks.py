"""What may stand side by side: the same problems, sampled the same way. Anything else is refused, or said in a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from agon.comparison.collect import Measured, Training
from agon.comparison.records import Subject
from agon.comparison.variants import changed_caps, changes_of
from agon.errors import DataError

_MAX_NAMES = 3


class Comparable(NamedTuple):
    """The evaluations that may be compared, what they have in common, and what has to be said about them."""

    subject: Subject
    measured: list[Measured]
    notes: list[str]


def comparable(measured: Sequence[Measured], *, task: str | None = None, split: str | None = None) -> Comparable:
    """Choose the evaluations that share task, split, problems (by id), temperature and nucleus.

    An evaluation that differs is left out with a note where its run has others that fit, and refused where it has none.

    Raises:
        DataError: several tasks or splits and none chosen, or a run that was only measured otherwise; says which.
    """
    notes: list[str] = []
    chosen = _choose(measured, "task", task, notes=notes)
    chosen = _choose(chosen, "split", split, notes=notes)
    chosen = _same(chosen, _ids, _on_other_problems, what="problems", notes=notes)
    chosen = _same(chosen, _sampling, _sampled_otherwise, what="sampling", notes=notes)
    trainings = list({item.training.run: item.training for item in chosen if item.training is not None}.values())
    first = chosen[0]
    seeds = {item.result.get("seed") for item in chosen}
    notes += _more_notes(chosen, trainings)
    subject = Subject(
        task=str(first.result["task"]),
        split=str(first.result["split"]),
        n=len(first.correct),
        evaluation_seed=seeds.pop() if len(seeds) == 1 else None,
        temperature=first.result.get("temperature"),
        top_p=first.result.get("top_p"),
        data_hash=_only({training.hashes.get("data") for training in trainings}),
    )
    return Comparable(subject, chosen, notes)


def _choose(measured: Sequence[Measured], name: str, wanted: str | None, *, notes: list[str]) -> list[Measured]:
    """Keep one task or split: the one asked for, or else the test split, or what every run was measured on."""
    values = [str(item.result[name]) for item in measured]
    known = list(dict.fromkeys(values))
    if wanted is not None and wanted not in known:
        raise DataError(
            f"no evaluation of {name} {wanted!r}: there is {', '.join(known)}; choose with --{name}, or evaluate first"
        )
    if wanted is None and len(known) > 1:
        runs = {item.run for item in measured}
        everywhere = [
            value for value in known if {item.run for item in measured if str(item.result[name]) == value} == runs
        ]
        wanted = "test" if name == "split" and "test" in known else everywhere[0] if len(everywhere) == 1 else None
        if wanted is None:
            raise DataError(f"the runs were measured on several {name}s ({', '.join(known)}): choose with --{name}")
        others = ", ".join(value for value in known if value != wanted)
        notes.append(f"{name} {wanted}; evaluations of {name} {others} are left out (choose with --{name})")
    return [item for item, value in zip(measured, values, strict=True) if wanted is None or value == wanted]


def _same(
    measured: Sequence[Measured],
    key: Callable[[Measured], Hashable],
    refuse: Callable[[Measured, Measured], DataError],
    *,
    what: str,
    notes: list[str],
) -> list[Measured]:
    """Keep what agrees with most runs; a run with nothing that agrees is refused."""
    votes: Counter[Hashable] = Counter(value for _, value in {(item.run, key(item)) for item in measured})
    # The first found wins a tie, so that the message names the later run.
    most = max(votes.values())
    common = next(key(item) for item in measured if votes[key(item)] == most)
    kept = [item for item in measured if key(item) == common]
    fitting = {item.run for item in kept}
    others = [item for item in measured if key(item) != common]
    for item in others:
        if item.run not in fitting:
            raise refuse(item, kept[0])
    if others:
        notes.append(f"left out, for other {what} than the rest: {_listed(item.place for item in others)}")
    return kept


def _ids(item: Measured) -> Hashable:
    return frozenset(item.correct)


def _sampling(item: Measured) -> Hashable:
    return item.result.get("temperature"), item.result.get("top_p")


def _on_other_problems(item: Measured, other: Measured) -> DataError:
    shared = len(item.correct.keys() & other.correct.keys())
    return DataError(
        f"{item.place} was measured on other problems than {other.place}: {len(item.correct)} and {len(other.correct)}, "
        f"{shared} of them shared; evaluate it on the same task and split, with the same evaluation.max_test, or leave it out"
    )


def _sampled_otherwise(item: Measured, other: Measured) -> DataError:
    own, rest = item.result, other.result
    return DataError(
        f"{item.place} was sampled at temperature {own.get('temperature')}, top-p {own.get('top_p')}, but {other.place} at "
        f"{rest.get('temperature')}, {rest.get('top_p')}: evaluate it again with --set evaluation.temperature="
        f"{rest.get('temperature')} --set evaluation.top_p={rest.get('top_p')}, or leave it out"
    )


def _more_notes(measured: Sequence[Measured], trainings: Sequence[Training]) -> list[str]:
    """Say what differs without making a comparison wrong."""
    notes = [
        *_differs(
            "evaluation seed",
            [(item.place, item.result.get("seed")) for item in measured],
            "pairing is by problem only",
        ),
        *_differs("number of samples", [(item.place, item.samples) for item in measured], "intervals differ in kind"),
    ]
    for name, text in (("data", "the task's data"), ("base", "base model")):
        pairs = [(training.run, training.hashes.get(name)) for training in trainings]
        notes += _differs(text, [(run, value) for run, value in pairs if value is not None], "trainings differ in it")
    budgets = [(training.run, training.metrics.get("rollouts_per_problem")) for training in trainings]
    notes += _differs(
        "rollouts per problem", [pair for pair in budgets if pair[1] is not None], "budgets are not equal"
    )
    notes += [
        f"{training.run} has done {training.steps} of {training.planned_steps} steps"
        for training in trainings
        if not training.is_finished
    ]
    notes += [note for item in measured if (note := _note_on_caps(item)) is not None]
    notes += _notes_on_changes(measured)
    errors = [
        f"{item.place}: the checker failed on {count} answers, which count as wrong"
        for item in measured
        if (count := (item.result.get("outcomes") or {}).get("error", 0))
    ]
    return notes + errors


def _note_on_caps(item: Measured) -> str | None:
    """Say where an evaluation had other caps than its training, beside those of a doubled cap, which its row names."""
    changed = [f"{stage}s {cap} tokens in place of {trained}" for stage, (cap, trained) in changed_caps(item).items()]
    return f"{item.place} was measured with other caps than its training's: {', '.join(changed)}" if changed else None


def _notes_on_changes(measured: Sequence[Measured]) -> list[str]:
    """Say which evaluations are not as trained, those that are so in the same way together."""
    places: dict[str, list[str]] = {}
    for item in measured:
        changes = changes_of(item)
        if changes:
            places.setdefault(", ".join(change.text for change in changes), []).append(item.place)
    return [
        f"measured otherwise than trained ({how}), and in rows of their own: {_listed(found)}"
        for how, found in places.items()
    ]


def _differs(what: str, pairs: Sequence[tuple[str, Any]], meaning: str) -> list[str]:
    """Say who differs from the most in a value."""
    votes = Counter(repr(value) for _, value in pairs)
    if len(votes) < 2:
        return []
    (common, _), *_ = votes.most_common(1)
    places = [name for name, value in pairs if repr(value) != common]
    return [f"another {what} than most ({meaning}): {_listed(places)}"]


def _listed(places: Iterable[str]) -> str:
    names = list(dict.fromkeys(places))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _only(values: set[Any]) -> Any:
    return next(iter(values)) if len(values) == 1 else None
