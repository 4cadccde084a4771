"""What crosses the borders inside the server: a job goes in, events come out. Free of torch and of HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from agon.match.asking import Sampling
from agon.match.borders import Prompter, Summarizer
from agon.records import AnswerStyle, Completion, Lineup, Match, Problem, Role, Summary


class Message(NamedTuple):
    """One message of a conversation, as text."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Job:
    """`samples` matches of one problem to be played for a client.

    `stop` ends the final completion before the first of these strings. `wants_text` asks for the text of the stages as it grows, without
    `shows_drafts` for that of the final one alone; else each stage is told of when it ends. `can_check` says that a program can judge the
    answer. `before` is what was said before the problem: only endpoints read it.
    """

    problem: Problem
    can_check: bool
    lineup: Lineup
    sampling: Sampling
    prompts: Prompter
    summarizer: Summarizer
    style: AnswerStyle
    samples: int = 1
    seed: int = 0
    stop: tuple[str, ...] = ()
    wants_text: bool = True
    shows_drafts: bool = True
    before: tuple[Message, ...] = ()

    def is_final(self, role: Role) -> bool:
        """Tell whether a stage in that role is known, while it grows, to be the one that answers the client.

        Of several drafts, or where only doubtful ones are challenged, that is known when the match is over.
        """
        return role == "challenger" or (not self.lineup.has_challenge and len(self.lineup.drafters) == 1)

    def is_read_as_it_grows(self, role: Role) -> bool:
        """Tell whether the client is told of the text of a stage in that role before it ends."""
        return self.wants_text and (self.shows_drafts or self.is_final(role))


class EndedStage(NamedTuple):
    """What a stage came to. Tokens are counted by whoever sampled; the completion of an endpoint has no token ids. Units: seconds.

    `is_estimated` marks counts that an endpoint did not give: words and signs stand in for its tokens.
    """

    completion: Completion
    num_prompt_tokens: int
    num_completion_tokens: int
    seconds: float
    is_estimated: bool = False


class Piece(NamedTuple):
    """What a stage has been given since its last piece. Texts add up to the completion's text; `ended` comes with the last.

    Token ids and logprobs (nats) are those that the text was read from: they may run ahead of it by an unfinished character. Where the
    job has stop strings and the stage is final, `token_ends` counts, for each token, the characters of the whole completion's text that
    are finished with it. Without it a stop string takes or leaves the tokens of a piece together.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ended: EndedStage | None = None
    token_ends: tuple[int, ...] = ()


class StageBegan(NamedTuple):
    """A stage of match `sample` has been asked for. `adapter` None is the bare base.

    Here and below `stage` counts the stages of the match: its drafts, then its challenge.
    """

    sample: int
    role: Role
    adapter: str | None
    stage: int = 0


class StageGrew(NamedTuple):
    """A stage of match `sample` has more text. `is_final` tells the text that answers the client from a draft's."""

    sample: int
    role: Role
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_final: bool
    stage: int = 0


class StageEnded(NamedTuple):
    """A stage of match `sample` has ended; the text of a final one that a stop string cut is cut."""

    sample: int
    role: Role
    ended: EndedStage
    is_final: bool
    stage: int = 0


class Crossed(NamedTuple):
    """What passed from the drafts of match `sample` to its challenger."""

    sample: int
    summaries: tuple[Summary, ...]


class MatchEnded(NamedTuple):
    """Match `sample` is over. Its verdicts say `NOT_CHECKED` where nobody knows the right answer."""

    sample: int
    match: Match


Event = StageBegan | StageGrew | StageEnded | Crossed | MatchEnded
