"""What a comparison of runs says, as one frozen tree that becomes plain JSON. Reports draw it, `agon compare --json` prints it.

An *arm* is a method with its settings, trained once a seed. A *row* is one arm measured in one protocol, over its seeds. Rows are
named by `id` (`ARM:PROTOCOL[:WHO]`), and every other part of the tree points at rows by it. Shares and accuracies are in 0..1; tokens
are means a problem and sample; a number that does not exist is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agon.stats.intervals import Interval

FORMAT_VERSION = 1
BASE_ARM = "base"
BASE_TITLE = "untrained base"


@dataclass(frozen=True, slots=True)
class Subject:
    """What every row was measured on and how. `data_hash` is None where the runs do not agree in it, or none says it."""

    task: str
    split: str
    n: int
    evaluation_seed: int | None
    temperature: float | None
    top_p: float | None
    data_hash: str | None


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One training of an arm. `run` is its folder as the user would type it. A method that draws further problems may finish early."""

    seed: int | None
    run: str
    steps: int
    planned_steps: int | None
    is_finished: bool = True


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with the settings that tell it from the others. The untrained base is an arm without method and runs.

    `headline` names the row that stands for the arm: the protocol it was trained for, in the direction chosen on the development
    problems. Where that direction was not measured the other one stands there, and its row says so (`is_unchosen`). None where nothing was.
    """

    name: str
    title: str
    method: str | None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    group: str | None = None
    runs: tuple[ArmRun, ...] = ()
    headline: str | None = None
    rollouts_per_problem: float | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Mean tokens of a problem and sample. `draft`, `challenge`, `total` are generated; the rest are read.

    `summary_prefill` are the summaries as challengers read them, `prompt_prefill` all other prompt tokens of all stages,
    `prefill_total` both.
    """

    draft: float
    challenge: float
    summary_prefill: float
    prompt_prefill: float
    prefill_total: float
    total: float


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One training's result: accuracy with its own interval, in which run's evaluation it stands, in which direction."""

    seed: int | None
    accuracy: float
    interval: Interval
    run: str
    labels: tuple[str, ...]
    direction: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An arm in a protocol, over its seeds.

    `direction` is a-b or b-a; `mean` of both; `chosen`: for each training the one that was better on the development problems; None
    where there is none. `who` names the players: `a`, `b`, `base`, `mean` of a and b, or the direction.
    `accuracy` is the mean of the trainings' accuracies, `seed_sd` their standard deviation (n - 1; None for one).
    `counted` says of how many matches `conversion`, `regression` and `blind_second` are shares, where that is known.
    `dead_group_share` and `revived_group_share` speak of training: groups without a signal, and dead by correctness but revived by
    a bonus. `latency_s` is None where none was recorded. `label` tells apart rows of the same protocol and ends their ids: layers
    of drafts, what a selective cascade goes by, how players were asked if otherwise than in training, or the evaluation's label
    where a run was measured twice in the same way. `changed` are the settings by which they were asked otherwise.
    `has_doubled_cap` says that completions might have twice the tokens that the trainings' settings allow.
    `is_unchosen` says that development problems chose the other direction, for every training of which that is known.
    """

    id: str
    arm: str
    title: str
    protocol: str
    who: str
    direction: str | None
    drafts: int
    seeds: tuple[int, ...]
    n: int
    samples: int
    accuracy: float
    interval: Interval
    interval_kind: str
    seed_sd: float | None
    per_seed: tuple[SeedResult, ...]
    tokens: Tokens
    truncated_share: float | None
    dead_group_share: float | None = None
    revived_group_share: float | None = None
    conversion: float | None = None
    regression: float | None = None
    copy: float | None = None
    leak: float | None = None
    blind_second: float | None = None
    counted: Mapping[str, int] = field(default_factory=dict[str, int])
    latency_s: float | None = None
    label: str = ""
    has_doubled_cap: bool = False
    changed: Mapping[str, str] = field(default_factory=dict[str, str])
    is_unchosen: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Row `first` against its rival `second` on the same problems: `difference` is first minus second.

    `kind` is `mcnemar-exact` (one training and one sample a problem each), `paired-bootstrap` (by problem) or
    `paired-nested-bootstrap` (by problem and seed); `seeds` counts the trainings of both. `wins` and `losses` count problems on which
    the first does better and worse. `p_holm` is adjusted for all tests of the same `family`. `min_detectable` is the smallest true
    difference that this many problems and seeds would show with 80 % power at level .05: a null says nothing about smaller ones.
    """

    first: str
    second: str
    kind: str
    n: int
    seeds: tuple[int, int]
    difference: float
    interval: Interval
    p: float
    p_holm: float
    family: str
    wins: int
    losses: int
    min_detectable: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference holds at level .05 after Holm's correction."""
        return self.p_holm < 0.05


@dataclass(frozen=True, slots=True)
class PanelCell:
    """One cell of the 2x2 panel; `row` is None where it was not measured."""

    competition: bool
    exchange: bool
    arm: str
    row: str | None


@dataclass(frozen=True, slots=True)
class Effect:
    """A contrast of several rows on the same problems, with its paired interval."""

    name: str
    difference: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Panel2x2:
    """Competition x exchange: independent (or grpo, where that was not measured), shared-hidden, cooperative, agon. `effects` only
    where all four were measured, and no cell in the direction that was not chosen.
    """

    cells: tuple[PanelCell, ...]
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class InitRow:
    """One initialisation: the arm's row, and how far apart its two adapters were in the first and the last step (metrics: pair/distance)."""

    arm: str
    title: str
    row: str | None
    settings: Mapping[str, Any]
    distance_first: float | None
    distance_last: float | None


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A row as accuracy against tokens. Generated tokens decide `is_on_front`; `all_tokens` adds what was read.

    `dominated_by` is the most accurate row that is at least as accurate for at most as many generated tokens. `is_rival` marks the
    honest rivals: majority@k of three answers or more, and a doubled cap.
    """

    row: str
    accuracy: float
    total: float
    all_tokens: float
    is_on_front: bool
    is_rival: bool
    dominated_by: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything `agon compare` found out."""

    subject: Subject
    arms: tuple[Arm, ...]
    rows: tuple[Row, ...]
    tests: tuple[PairedTest, ...]
    panel_2x2: Panel2x2 | None
    init_panel: tuple[InitRow, ...]
    frontier: tuple[FrontierPoint, ...]
    notes: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION

    def to_json(self) -> dict[str, Any]:
        """Turn the tree into plain JSON types."""
        return asdict(self)
