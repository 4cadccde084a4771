"""What crosses a border between two packages: frozen, free of torch, ready for JSON.

Read this file first. A *problem* becomes a *prompt*, an engine turns the prompt into a *completion*, a program gives it a
*verdict*: together an *attempt*. One or more attempts at one problem, each later one reading what came before, make a *match*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["correct", "wrong", "unparsed", "truncated", "timeout", "error"]
StopReason = Literal["stop", "length"]
Role = Literal["drafter", "challenger"]
AnswerStyle = Literal["tags", "boxed", "code"]
SummaryStyle = Literal["text", "tries"]
Withholding = Literal["mark", "drop"]
PlainWording = Literal["plain-v1", "plain-v2", "plain-v3"]
Direction = Literal["a-b", "b-a"]
Reading = Literal["own", "shared", "placebo", "empty", "hidden"]
Doubt = Literal["likelihood", "agreement"]
Standing = Literal["first", "second", "majority", "likeliest"]
Signal = Literal["correctness", "reward"]

OUTCOMES: tuple[Outcome, ...] = ("correct", "wrong", "unparsed", "truncated", "timeout", "error")
ANSWER_STYLES: tuple[AnswerStyle, ...] = ("tags", "boxed", "code")
DIRECTIONS: tuple[Direction, ...] = ("a-b", "b-a")
DOUBTS: tuple[Doubt, ...] = ("likelihood", "agreement")
WITHHOLDINGS: tuple[Withholding, ...] = ("mark", "drop")
PLAIN_WORDINGS: tuple[PlainWording, ...] = ("plain-v1", "plain-v2", "plain-v3")
ADAPTERS = ("A", "B")

# Names a recipe may use. They stand here, not with the code they name, so that settings are checked without importing it.
METHODS = (
    *("grpo", "grpo-two-groups", "dr_grpo", "dapo", "gspo", "cispo", "rft", "self-refine", "self-refine-conversion"),
    *("cooperative", "independent", "agon", "margin", "permuted", "shared-hidden", "shared-visible", "hidden"),
    *("fixed-roles", "frozen-opponent", "past-opponent", "tie-break", "answer-visible", "random-reward"),
    *("lcpo-exact", "lcpo-max", "kimi", "grpo-lead", "shorter-better", "soft-overlong"),
)
PROTOCOLS = (
    "single",
    "cascade",
    "self-cascade",
    "moa",
    "majority",
    "likeliest",
    "blind-second",
    "placebo",
    "empty-draft",
    "answer-visible",
    "selective",
)
VERIFIERS = ("expression", "numeric", "exact", "math", "code", "reasoning-gym")
NAMED_TASKS = ("countdown-lite", "gsm8k", "math", "math500", "deepmath", "svamp", "humaneval", "mbpp", "code_contests")
CODE_TASKS = ("humaneval", "mbpp", "code_contests")
WORDINGS = (*PLAIN_WORDINGS, "symbols-v1")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be solved, with what a program needs to check an answer.

    `id` is a hash of the content, so that the same problem has the same id in every file and run. `details` holds what the
    verifier needs beyond `gold` (numbers and target of a countdown problem) and travels unchanged.
    """

    id: str
    question: str
    gold: str
    task: str
    verifier: str
    summary_style: SummaryStyle = "text"
    level: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids as the model will read them, and the same as text for people."""

    token_ids: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to sample. Its `seed` alone decides its random numbers, whatever else is in the batch.

    `adapter` None asks for the bare base.
    """

    prompt_ids: tuple[int, ...]
    adapter: str | None
    max_tokens: int
    seed: int
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled tokens: ids (the stop token included when it was sampled) and their logprobs under the sampling distribution.

    `logprobs` are those of softmax(logits / temperature), restricted to the nucleus when top_p is below 1.
    `adapter_version` counts the optimiser steps the adapter had taken (0 for the base).

    Units: nats.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    stop_reason: StopReason
    adapter: str | None
    adapter_version: int

    @property
    def num_tokens(self) -> int:
        """Number of sampled tokens."""
        return len(self.token_ids)

    @property
    def is_truncated(self) -> bool:
        """Whether the cap on tokens ended the completion."""
        return self.stop_reason == "length"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a program decided about one completion, and what exactly it compared."""

    outcome: Outcome
    score: float
    reason: str = ""
    answer: str | None = None
    gold: str | None = None

    @property
    def is_correct(self) -> bool:
        """Whether the answer was judged right."""
        return self.outcome == "correct"

    @property
    def is_masked(self) -> bool:
        """Whether the checker itself failed, so that nothing may be learned from this completion."""
        return self.outcome == "error"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a challenger sees of a draft: the text after the reasoning block, the answer withheld unless `shows_answer`.

    `is_empty` marks the fixed stand-in shown for a truncated or empty draft, `has_leak` an answer that can be read in the text
    (whether it was withheld or left in), `num_withheld` how many spans were taken out, `is_cut` that the front was cut to the token
    limit.
    """

    text: str
    is_empty: bool
    has_leak: bool
    num_withheld: int
    num_tokens: int = 0
    is_cut: bool = False
    shows_answer: bool = False


@dataclass(frozen=True, slots=True)
class Lineup:
    """Who plays a match: one draft by each of `drafters`, then, if `has_challenge`, one challenge that reads them all.

    Adapters by name; None is the bare base. Where there is no challenge, `stands` says which draft is final: the first, the second (the blind
    second pass), the first of the most frequent answer (`majority`), or of those that have an answer that with the highest mean logprob a
    token (`likeliest`, nats).

    `reads` is what the challenger sees: its `own` match's drafts; the drafts of the problem's first match (`shared`); those of
    another problem (`placebo`); the stand-in of an `empty` draft; or the plain draft prompt (`hidden`). `shows_answer` leaves the
    answer in the summary. With `layers` above 1 every drafter drafts again, reading all drafts of the layer before, and the challenge
    reads the last layer (mixture of agents, arXiv:2406.04692, which counts the challenge as one layer more). `doubt` challenges only
    where the draft is doubtful: its mean logprob a token (`likelihood`, nats; minus infinity without an answer) or the largest share of
    drafts with one answer (`agreement`) is below `threshold`. Elsewhere the majority's draft is final, whatever `stands` says.
    """

    drafters: tuple[str | None, ...]
    has_challenge: bool = False
    challenger: str | None = None
    stands: Standing = "first"
    reads: Reading = "own"
    shows_answer: bool = False
    layers: int = 1
    doubt: Doubt | None = None
    threshold: float = 0.0

    @property
    def num_rollouts(self) -> int:
        """Completions sampled in one match, at most."""
        return self.layers * len(self.drafters) + int(self.has_challenge)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One stage of a match: who played which role, what was asked, what came back, what it was worth.

    `format_score` is phi of the rewards: 1 for a well-formed answer, else 0.
    """

    role: Role
    adapter: str | None
    prompt: Prompt
    completion: Completion
    verdict: Verdict
    format_score: float

    @property
    def is_correct(self) -> bool:
        """Whether the answer was judged right."""
        return self.verdict.is_correct


@dataclass(frozen=True, slots=True)
class Match:
    """One problem through its stages. `summaries` is what the challenger saw: `summaries[i]` of `drafts[i]`, if it read its own match.

    `sample` numbers the matches of one problem (0..N-1). Without a challenge the draft numbered `chosen` is the final attempt.
    `earlier` holds the drafts of the layers before the last, oldest first, and `earlier_summaries` what each drafter of the next layer
    saw of them.
    """

    problem: Problem
    sample: int
    drafts: tuple[Attempt, ...]
    summaries: tuple[Summary, ...] = ()
    challenge: Attempt | None = None
    chosen: int = 0
    earlier: tuple[Attempt, ...] = ()
    earlier_summaries: tuple[Summary, ...] = ()

    @property
    def draft(self) -> Attempt:
        """The first draft."""
        return self.drafts[0]

    @property
    def final(self) -> Attempt:
        """The attempt whose answer counts."""
        if self.challenge is not None:
            return self.challenge
        return self.drafts[self.chosen]

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every stage in the order played."""
        played = (*self.earlier, *self.drafts)
        return played if self.challenge is None else (*played, self.challenge)


def to_json(record: Any) -> dict[str, Any]:
    """Turn a record into plain JSON types."""
    return asdict(record)


__all__ = [
    "ADAPTERS",
    "ANSWER_STYLES",
    "CODE_TASKS",
    "DIRECTIONS",
    "DOUBTS",
    "METHODS",
    "NAMED_TASKS",
    "OUTCOMES",
    "PLAIN_WORDINGS",
    "PROTOCOLS",
    "VERIFIERS",
    "WITHHOLDINGS",
    "WORDINGS",
    "AnswerStyle",
    "Attempt",
    "Completion",
    "Direction",
    "Doubt",
    "Lineup",
    "Match",
    "Outcome",
    "PlainWording",
    "Problem",
    "Prompt",
    "Reading",
    "Request",
    "Role",
    "Standing",
    "StopReason",
    "Summary",
    "SummaryStyle",
    "Verdict",
    "Withholding",
    "to_json",
]
