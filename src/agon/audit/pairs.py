"""Verdicts on labelled pairs: rows of a gold answer, an answer or a whole completion, and whether they are equal.

A row whose verdict is not what its label says is a false positive (judged correct, labelled different), a false negative (the
reverse), or an error (the checker gave no verdict).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from agon.audit.judge import Check, Judged
from agon.audit.reading import Reading, answered, problem_for, read_whole
from agon.config import did_you_mean
from agon.errors import ConfigError, DataError
from agon.records import OUTCOMES, Problem
from agon.stats import clopper_pearson
from agon.tasks.rows import UnusableRow, answer_text
from agon.tasks.table import Table, listed, shown

NUM_SLOWEST = 5
# What rows may be told apart by.
GROUPS = ("kind", "tier", "tag")
_FIELDS = ("gold", "equal", "pred", "completion")
EXTRA_FIELDS = ("id", "kind", "tier", "tags")


class BadRow(NamedTuple):
    """A row that cannot be judged, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Pair:
    """One labelled row. `groups` holds the names it goes by: kind, tier, tags."""

    number: int
    id: str
    problem: Problem
    text: str
    is_whole: bool
    is_equal: bool
    groups: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Pairs:
    """The rows of a file: those to be judged, those that cannot be, and how many were left out by choice."""

    source: str
    rows: list[Pair] = field(default_factory=list[Pair])
    bad: list[BadRow] = field(default_factory=list[BadRow])
    num_left_out: int = 0

    def require_rows(self) -> None:
        """Check that there is something to judge.

        Raises:
            DataError: there is not; says why.
        """
        if self.rows:
            return
        reason = "no row has the names that were asked for" if self.num_left_out else "it is empty"
        if self.bad:
            reason = f"row {self.bad[0].number}: {self.bad[0].reason}"
        raise DataError(f"{self.source} has no row to judge: {reason}")


def read_pairs(table: Table, *, verifier: str, only: Mapping[str, Sequence[str]]) -> Pairs:
    """Read labelled rows; `only` keeps those with one of the given names in each group that it mentions.

    A row has `gold`, `equal` (true or false, as a word in CSV), and either `pred` (an answer: text or a number) or `completion` (a whole
    output); a `pred` whose `kind` is `completion` is a whole output too. Golds are read as those of a task are.

    Raises:
        ConfigError: a column is missing.
        DataError: no row is left.
    """
    _check_columns(table)
    pairs = Pairs(table.source)
    for row in table.read([name for name in (*_FIELDS, *EXTRA_FIELDS) if name in table.columns]):
        try:
            if row.fault:
                raise UnusableRow(row.fault)
            groups = groups_of(row.values)
            if any(not set(names) & set(groups[group]) for group, names in only.items()):
                pairs.num_left_out += 1
                continue
            pairs.rows.append(_pair(row.number, row.values, groups, verifier=verifier))
        except UnusableRow as error:
            pairs.bad.append(BadRow(row.number, str(error)))
    pairs.require_rows()
    return pairs


def check_of(pair: Pair, reading: Reading) -> Check:
    """Turn a row into a check. A lone answer is read as if it stood in an answer block, which unwraps a box around it."""
    if not pair.is_whole:
        return Check(pair.problem, answered(pair.text), "tags", pair)
    return read_whole(pair.problem, pair.text, reading, source=pair)


def summarize(judged: Sequence[Judged]) -> dict[str, Any]:
    """Count agreement with the labels, in all and by group.

    `n` is the sum of `agree`, `false_positives`, `false_negatives` and `errors`. A time-out is a verdict (not correct), and counted
    beside.
    """
    total = _Count()
    by: dict[str, dict[str, _Count]] = {group: {} for group in GROUPS}
    for one in judged:
        total.add(one)
        for group, names in one.check.source.groups.items():
            for name in names:
                by[group].setdefault(name, _Count()).add(one)
    interval = clopper_pearson(total.agree, total.n, unit="row").to_json()
    tables = {
        f"by_{group}": {name: asdict(counted) for name, counted in counts.items()} for group, counts in by.items()
    }
    counted = Counter(one.verdict.outcome for one in judged)
    outcomes = {outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]}
    slowest = sorted(judged, key=lambda one: one.seconds, reverse=True)[:NUM_SLOWEST]
    return {
        **asdict(total),
        "agreement": total.agree / total.n,
        "interval": interval,
        "outcomes": outcomes,
        "slowest": [
            {"number": one.check.source.number, "seconds": round(one.seconds, 4), "verdict": one.verdict.outcome}
            for one in slowest
        ],
        **tables,
    }


Fault = Literal["false positive", "false negative", "error"]
FAULTS: tuple[Fault, ...] = ("false positive", "false negative", "error")


class Disagreement(NamedTuple):
    """A row whose verdict is not what its label says."""

    fault: Fault
    judged: Judged


def disagreements(judged: Sequence[Judged]) -> list[Disagreement]:
    """Return the rows whose verdict is not what the label says, the worst fault first: a wrong "correct"."""
    return [Disagreement(fault, one) for fault in FAULTS for one in judged if _fault(one) == fault]


def _fault(one: Judged) -> Fault | None:
    is_equal: bool = one.check.source.is_equal
    if one.verdict.outcome == "error":
        return "error"
    if one.verdict.is_correct == is_equal:
        return None
    return "false negative" if is_equal else "false positive"


@dataclass(slots=True)
class _Count:
    n: int = 0
    agree: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    timeouts: int = 0
    errors: int = 0

    def add(self, one: Judged) -> None:
        fault = _fault(one)
        self.n += 1
        self.agree += fault is None
        self.false_positives += fault == "false positive"
        self.false_negatives += fault == "false negative"
        self.timeouts += one.verdict.outcome == "timeout"
        self.errors += fault == "error"


def _check_columns(table: Table) -> None:
    found = table.columns
    wanted = [name for name in ("gold", "equal") if name not in found]
    if "pred" not in found and "completion" not in found:
        wanted.append("pred")
    if wanted and found:
        hint = did_you_mean(wanted[0], found)
        raise ConfigError(
            f"{table.source} has no field {wanted[0]!r}{hint}: rows need gold, equal, and pred or completion; "
            f"it has {listed(found)}"
        )


def _pair(number: int, values: Mapping[str, Any], groups: Mapping[str, tuple[str, ...]], *, verifier: str) -> Pair:
    is_equal = _label(values.get("equal"))
    texts = {name: values[name] for name in ("pred", "completion") if values.get(name) is not None}
    if len(texts) == 2 and "" in texts.values():
        # In a CSV with both columns one field of a row is empty.
        texts = {name: text for name, text in texts.items() if text != ""} or {"pred": ""}
    if len(texts) != 1:
        raise UnusableRow("both 'pred' and 'completion'" if texts else "neither 'pred' nor 'completion'")
    ((name, text),) = texts.items()
    if name == "pred" and not isinstance(text, str):
        text = answer_text(text, name)
    if not isinstance(text, str):
        raise UnusableRow(f"{name!r} is {shown(text)}, where text is wanted")
    is_whole = name == "completion" or values.get("kind") == "completion"
    problem = problem_for(values.get("gold"), verifier)
    return Pair(number, str(values.get("id", "")), problem, text, is_whole, is_equal, groups)


def _label(value: Any) -> bool:
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("true", "false"):
        return word == "true"
    if not isinstance(word, bool):
        raise UnusableRow(f"'equal' is {shown(value)}, where true or false is wanted")
    return word


def groups_of(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names that a row goes by: its kind, its tier, its tags."""
    tags = values.get("tags")
    kind = values.get("kind") or ("completion" if values.get("completion") is not None else "answer")
    return {
        "kind": (str(kind),),
        "tier": (str(values["tier"]),) if values.get("tier") is not None else (),
        "tag": tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
    }
