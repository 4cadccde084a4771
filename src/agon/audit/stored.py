"""A run's stored completions checked again: what today's verifiers decide otherwise, and what takes them long."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agon.audit.judge import Check, Judged, judge_each
from agon.config import Settings
from agon.errors import AgonError, RunError
from agon.recipe import saved_settings, settings_from
from agon.records import OUTCOMES, Attempt, Match, Outcome
from agon.runs import child_runs, folder_kind, match_files, match_step, read_config, read_matches
from agon.tasks.table import listed

NUM_SLOWEST = 10
_MATCHES = ".matches.jsonl.gz"


class Stored(NamedTuple):
    """Where a completion is stored, and the outcome stored with it. `line` counts the matches of its file from 1."""

    file: str
    line: int
    problem: str
    sample: int
    stage: str
    outcome: Outcome


class Damage(NamedTuple):
    """A file that could not be read, or not to its end."""

    file: str
    reason: str


class Wanted(NamedTuple):
    """Which files are checked: matches of these training steps and of these evaluations; all, where neither is named."""

    steps: Sequence[int] = ()
    labels: Sequence[str] = ()


@dataclass(slots=True)
class Change:
    """How often one outcome became another, with some of the completions that it happened to."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(slots=True)
class Audit:
    """What came of it. `changes` is by (stored outcome, outcome of today)."""

    runs: list[str] = field(default_factory=list[str])
    num_files: int = 0
    before: Counter[str] = field(default_factory=Counter[str])
    now: Counter[str] = field(default_factory=Counter[str])
    changes: dict[tuple[Outcome, Outcome], Change] = field(default_factory=dict[tuple[Outcome, Outcome], Change])
    slowest: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list[tuple[float, int, dict[str, Any]]])
    damaged: list[Damage] = field(default_factory=list[Damage])

    @property
    def num_checked(self) -> int:
        """Completions that were checked."""
        return self.now.total()

    @property
    def num_changed(self) -> int:
        """Completions with another outcome than the stored one."""
        return sum(change.count for change in self.changes.values())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types; the most frequent change and the slowest check come first."""
        changes = sorted(self.changes.items(), key=lambda item: (-item[1].count, item[0]))
        return {
            "runs": self.runs,
            "files": self.num_files,
            "checked": self.num_checked,
            "changed": self.num_changed,
            "outcomes": {"stored": _ordered(self.before), "now": _ordered(self.now)},
            "changes": [
                {"from": before, "to": now, "count": change.count, "examples": change.examples}
                for (before, now), change in changes
            ],
            "slowest": [described for _, _, described in sorted(self.slowest, reverse=True)],
            "damaged": [damage._asdict() for damage in self.damaged],
        }


def audit_run(
    path: Path,
    *,
    wanted: Wanted,
    overrides: Sequence[str],
    num_examples: int | None,
    progress: Callable[[int], None],
) -> Audit:
    """Check every stored completion of a run (or of each run in a parent folder) again; nothing in the folder is changed.

    `overrides` change the run's own settings, such as `verifier.timeout_s=1`. `num_examples` bounds the examples of each change.

    Raises:
        ConfigError: an override cannot be used.
        RunError: no run folder, no matches, none of a step or evaluation that is wanted, or nothing could be read.
    """
    settings_from({}, overrides, source="arguments")  # a mistake in these is no damage of a run
    files = {run: _files(run, wanted) for run in child_runs(path) if folder_kind(run) == "run"}
    _check_found(path, [file for run in files for file in _files(run, Wanted())], wanted)
    audit = Audit(runs=[str(run) for run in files], num_files=sum(map(len, files.values())))

    def on_judged(place: int, judged: Judged) -> None:
        _count(audit, judged, num_examples)
        progress(audit.num_checked)

    for run, of_run in files.items():
        try:
            source = str(run / "config.json")
            settings = saved_settings(read_config(run), overrides, source=source, tables=("verifier",))
        except AgonError as error:
            audit.damaged.append(Damage(str(run), str(error)))
            continue
        judge_each(_checks(of_run, settings, audit), settings.verifier, on_judged)
    if not audit.num_checked and audit.damaged:
        raise RunError(audit.damaged[0].reason)
    return audit


def _files(run: Path, wanted: Wanted) -> list[Path]:
    files: list[Path] = []
    if wanted.steps or not wanted.labels:
        files += [path for path in match_files(run) if not wanted.steps or match_step(path) in wanted.steps]
    if wanted.labels or not wanted.steps:
        # A hidden file is one that is still being written.
        found = [path for path in sorted((run / "evaluations").glob(f"*{_MATCHES}")) if path.name[0] != "."]
        files += [path for path in found if not wanted.labels or _label(path) in wanted.labels]
    return files


def _check_found(path: Path, files: Sequence[Path], wanted: Wanted) -> None:
    """Check that all that is wanted is among the `files` there are."""
    if not files:
        raise RunError(f"{path} holds no matches to check: train further, or measure it with agon eval")
    steps = {match_step(file) for file in files if file.parent.name == "matches"}
    labels = {_label(file) for file in files if file.parent.name == "evaluations"}
    lacking = [f"of step {step}" for step in wanted.steps if step not in steps]
    lacking += [f"of evaluation {label!r}" for label in wanted.labels if label not in labels]
    if lacking:
        there = [f"--step {listed(map(str, sorted(steps)))}"] if steps else []
        there += [f"--label {listed(sorted(labels))}"] if labels else []
        raise RunError(f"{path} holds no matches {lacking[0]}: choose of {'; '.join(there)}")


def _label(path: Path) -> str:
    return path.name.removesuffix(_MATCHES)


def _checks(files: Sequence[Path], settings: Settings, audit: Audit) -> Iterator[Check]:
    for path in files:
        try:
            for line, match in enumerate(read_matches(path), 1):
                for stage, attempt in _stages(match):
                    source = Stored(str(path), line, match.problem.id, match.sample, stage, attempt.verdict.outcome)
                    yield Check(match.problem, attempt.completion, settings.task.answer_style, source)
        except RunError as error:
            audit.damaged.append(Damage(str(path), str(error)))


def _stages(match: Match) -> Iterator[tuple[str, Attempt]]:
    for number, draft in enumerate(match.earlier, 1):
        yield f"earlier draft {number}", draft
    for number, draft in enumerate(match.drafts, 1):
        yield "draft" if len(match.drafts) == 1 else f"draft {number}", draft
    if match.challenge is not None:
        yield "challenge", match.challenge


def _count(audit: Audit, judged: Judged, num_examples: int | None) -> None:
    stored: Stored = judged.check.source
    before, now = stored.outcome, judged.verdict.outcome
    audit.before[before] += 1
    audit.now[now] += 1
    if before != now:
        change = audit.changes.setdefault((before, now), Change())
        change.count += 1
        if num_examples is None or len(change.examples) < num_examples:
            change.examples.append(_described(judged))
    # The running number keeps two checks of the same time from being compared by their descriptions.
    if len(audit.slowest) < NUM_SLOWEST:
        heapq.heappush(audit.slowest, (judged.seconds, audit.num_checked, _described(judged)))
    elif judged.seconds > audit.slowest[0][0]:
        heapq.heapreplace(audit.slowest, (judged.seconds, audit.num_checked, _described(judged)))


def _described(judged: Judged) -> dict[str, Any]:
    verdict = judged.verdict
    place = judged.check.source._asdict()
    place["stored"] = place.pop("outcome")
    return place | {
        "now": verdict.outcome,
        "reason": verdict.reason,
        "gold": verdict.gold if verdict.gold is not None else judged.check.problem.gold,
        "answer": verdict.answer,
        "seconds": round(judged.seconds, 4),
    }


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}
