"""The pair of one run under the microscope: what the exchange does, whether the two fail alike, how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agon.config import EvaluationSettings, Settings
from agon.errors import ConfigError
from agon.evaluation.alarms import Alarm, always_disagreeing, copying, dead_adapter, teacher_student
from agon.evaluation.batches import Progress, play_all, require_problems
from agon.evaluation.exchanged import Exchanged, exchanged
from agon.evaluation.load import Opened, sampling_for
from agon.evaluation.policies import Divergence, divergences
from agon.evaluation.singles import Singles, compare_singles
from agon.match.lineups import lineup_for, trained_protocol
from agon.methods.registry import method_named
from agon.model.divergence import Updates, compare_updates
from agon.model.pair import AdapterPair
from agon.records import DIRECTIONS, Attempt, Direction, Match, Problem
from agon.runs.evaluations import MICROSCOPE_FILE, MICROSCOPE_FORMAT
from agon.runs.manifest import write_json

# pass@2 needs two.
_FEWEST_SAMPLES = 2
_DRAFTER: Mapping[Direction, str] = {"a-b": "A", "b-a": "B"}

_Played = dict[Direction, list[list[Match]]]


@dataclass(frozen=True, slots=True)
class Microscope:
    """One examination. What each number means, and when a null may be trusted: docs/statistics.md.

    Every number is over `n` problems of `split` with `samples` samples each, sampled as evaluations are. `exchange` is by direction,
    `policies` one row a text and pair of policies.
    """

    task: str
    split: str
    method: str
    protocol: str
    checkpoint: str | None
    n: int
    samples: int
    seed: int
    temperature: float
    top_p: float
    exchange: dict[Direction, Exchanged]
    singles: Singles
    policies: list[Divergence]
    updates: Updates
    alarms: list[Alarm]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Turn the examination into plain JSON types."""
        return {
            "format_version": MICROSCOPE_FORMAT,
            **asdict(self),
            "exchange": {direction: found.to_json() for direction, found in self.exchange.items()},
            "alarms": [alarm.to_json() for alarm in self.alarms],
            "notes": list(self.notes),
        }


def check_pair(settings: Settings, *, samples: int) -> None:
    """Check, before a model is loaded, that a run has a pair to examine.

    Raises:
        ConfigError: its method trains one adapter, or fewer than two samples are asked for.
    """
    method = method_named(settings.train.method)
    if not method.has_pair:
        raise ConfigError(
            f"this run trained adapter {' and '.join(method.adapters)} alone: there is no pair to examine"
        )
    if samples < _FEWEST_SAMPLES:
        raise ConfigError(f"--samples is {samples}, but a pair is examined by pass@2: give {_FEWEST_SAMPLES} or more")


def examine(
    opened: Opened,
    *,
    split: Literal["dev", "test"],
    samples: int = _FEWEST_SAMPLES,
    max_problems: int | None = None,
    progress: Progress | None = None,
) -> Microscope:
    """Let A and B draft and challenge in both directions on a split (or its first `max_problems`), and compare all that can be.

    The drafts of the two directions are the two adapters' single answers, and each direction's are the other's blind second pass. Each
    direction has random streams of its own: with common ones two adapters that are nearly the same would fail together by
    construction. The session stays open.

    Raises:
        ConfigError: the run did not train two adapters, or fewer than two samples are asked for.
        DataError: the split is empty.
    """
    check_pair(opened.settings, samples=samples)
    pair = opened.session.pair
    if pair is None:
        raise ConfigError("a base model has no pair to examine: give a run folder")
    problems = (opened.task.test if split == "test" else opened.task.dev)[:max_problems]
    require_problems(problems, task=opened.task.name, split=split)
    settings = opened.settings.evaluation.model_copy(update={"samples": samples})
    protocol = trained_protocol(method_named(opened.settings.train.method))
    played = _play(opened, problems, protocol, settings=settings, progress=progress)
    answers = _answers(played)
    exchange: dict[Direction, Exchanged] = {
        direction: exchanged(matches, answers[_challenger(direction)], seed=settings.seed)
        for direction, matches in played.items()
    }
    singles = compare_singles(answers, seed=settings.seed)
    policies = _policies(pair, answers, settings)
    updates = compare_updates(pair)
    return Microscope(
        task=opened.task.name,
        split=split,
        method=opened.settings.train.method,
        protocol=protocol,
        checkpoint=None if opened.checkpoint is None else opened.checkpoint.name,
        n=len(problems),
        samples=samples,
        seed=settings.seed,
        temperature=settings.temperature,
        top_p=settings.top_p,
        exchange=exchange,
        singles=singles,
        policies=policies,
        updates=updates,
        alarms=_alarms(exchange, singles, policies, updates),
        notes=opened.notes,
    )


def write_microscope(run: Path, found: Microscope) -> Path:
    """Write an examination into its run folder, in place of an earlier one. Return the file's path.

    Raises:
        RunError: the place cannot be written to.
    """
    path = run / MICROSCOPE_FILE
    write_json(path, found.to_json())
    return path


def _challenger(direction: Direction) -> str:
    return "B" if direction == "a-b" else "A"


def _play(
    opened: Opened,
    problems: Sequence[Problem],
    protocol: str,
    *,
    settings: EvaluationSettings,
    progress: Progress | None,
) -> _Played:
    played: _Played = {}
    for number, direction in enumerate(DIRECTIONS):
        done = number * len(problems)

        def tell(count: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + count, len(DIRECTIONS) * len(problems))

        played[direction] = play_all(
            opened.session,
            problems,
            lineup_for(protocol, direction=direction),
            settings=settings,
            sampling=sampling_for(opened.settings),
            stream=f"microscope {direction}",
            progress=tell,
        )
    return played


def _answers(played: _Played) -> dict[str, list[list[Attempt]]]:
    """Return each adapter's own answers: the drafts of the direction in which it drafts."""
    return {
        _DRAFTER[direction]: [[match.draft for match in of_problem] for of_problem in matches]
        for direction, matches in played.items()
    }


def _policies(
    pair: AdapterPair, answers: Mapping[str, Sequence[Sequence[Attempt]]], settings: EvaluationSettings
) -> list[Divergence]:
    # Greedy answers come from no distribution of their own; the model's own is at temperature 1.
    temperature = settings.temperature or 1.0
    return [
        divergence
        for name, texts in answers.items()
        for divergence in divergences(
            pair,
            texts,
            name=name,
            between=(("A", "B"), ("A", None), ("B", None)),
            temperature=temperature,
            seed=settings.seed,
        )
    ]


def _alarms(
    exchange: Mapping[Direction, Exchanged], singles: Singles, policies: Sequence[Divergence], updates: Updates
) -> list[Alarm]:
    own_kl = {row.text: row.kl for row in policies if (row.first, row.second) == (row.text, "base")}
    found = [
        alarm(direction, rates) for direction, rates in exchange.items() for alarm in (copying, always_disagreeing)
    ]
    found.append(teacher_student(singles.strength.difference, singles.union.gain_over_stronger))
    return [*(alarm for alarm in found if alarm is not None), *dead_adapter(updates, own_kl)]
