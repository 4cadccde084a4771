"""Play matches: the one place where a draft meets a challenge. Training, evaluation, `solve` and the server all call it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from agon.answers import extract_answer, format_score
from agon.errors import AgonError
from agon.match.session import Session
from agon.numerals import read_number
from agon.records import Attempt, Completion, Lineup, Match, Problem, Prompt, Request, Role, Summary, Verdict
from agon.rollout.checks import check_completions
from agon.seeding import stream_seed


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are sampled, stage by stage. Units: tokens."""

    max_draft_tokens: int
    max_challenge_tokens: int
    max_summary_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


class _Sampled(NamedTuple):
    role: Role
    problems: list[Problem]
    prompts: list[Prompt]
    completions: list[Completion]


def play(
    session: Session,
    problems: Sequence[Problem],
    lineup: Lineup,
    *,
    samples: int,
    sampling: Sampling,
    seed: int,
    stream: tuple[str | int, ...],
) -> list[list[Match]]:
    """Play `samples` matches of every problem and return them problem by problem.

    Challenge i reads what draft i left: the text after its reasoning, the answer withheld. Every completion draws from a random
    stream of its own, named by `stream`, the problem, the sample and the stage, so that a match does not depend on what else is
    played beside it. Drafts are checked while the challenges are sampled.

    Raises:
        EngineError: the engine returned something unusable.
        VerifierError: too large a share of the checks failed by the checkers' own fault.
    """
    places = [(problem, sample) for problem in problems for sample in range(samples)]
    player = _Player(session, sampling, seed, stream)
    drafts = player.sample_drafts(places, lineup)
    with ThreadPoolExecutor(max_workers=1) as background:
        draft_verdicts = background.submit(player.check, drafts)
        summaries = player.summarize(drafts) if lineup.has_challenge else []
        per_match = len(lineup.drafters)
        shown = [tuple(summaries[i : i + per_match]) for i in range(0, len(summaries), per_match)]
        challenges = player.sample_challenges(places, shown, lineup) if lineup.has_challenge else None
        attempts = _attempts(drafts, draft_verdicts, session)
    answers = _attempts(challenges, player.check(challenges), session) if challenges is not None else None
    session.verifiers.check_error_share()
    matches = [
        _match(place, attempts[i * per_match : (i + 1) * per_match], lineup, shown, answers, i, session)
        for i, place in enumerate(places)
    ]
    return [matches[i : i + samples] for i in range(0, len(matches), samples)]


class _Player:
    """The arguments that every stage of one call of `play` shares."""

    def __init__(self, session: Session, sampling: Sampling, seed: int, stream: tuple[str | int, ...]) -> None:
        self.session = session
        self.sampling = sampling
        self.seed = seed
        self.stream = stream

    def sample_drafts(self, places: Sequence[tuple[Problem, int]], lineup: Lineup) -> _Sampled:
        prompt_of = {problem.id: self.session.prompts.draft(problem) for problem, _ in places}
        problems = [problem for problem, _ in places for _ in lineup.drafters]
        prompts = [prompt_of[problem.id] for problem in problems]
        requests = [
            self._request(
                prompt_of[problem.id], adapter, self.sampling.max_draft_tokens, "draft", problem.id, sample, number
            )
            for problem, sample in places
            for number, adapter in enumerate(lineup.drafters)
        ]
        return self._generate("drafter", problems, prompts, requests)

    def sample_challenges(
        self, places: Sequence[tuple[Problem, int]], shown: Sequence[tuple[Summary, ...]], lineup: Lineup
    ) -> _Sampled:
        problems = [problem for problem, _ in places]
        prompts = [
            self.session.prompts.challenge(problem, summaries)
            for problem, summaries in zip(problems, shown, strict=True)
        ]
        requests = [
            self._request(
                prompt, lineup.challenger, self.sampling.max_challenge_tokens, "challenge", problem.id, sample, 0
            )
            for (problem, sample), prompt in zip(places, prompts, strict=True)
        ]
        return self._generate("challenger", problems, prompts, requests)

    def summarize(self, drafts: _Sampled) -> list[Summary]:
        limit = self.sampling.max_summary_tokens
        return [
            self.session.summarize(problem, completion, max_tokens=limit)
            for problem, completion in zip(drafts.problems, drafts.completions, strict=True)
        ]

    def check(self, sampled: _Sampled) -> list[Verdict]:
        pairs = list(zip(sampled.problems, sampled.completions, strict=True))
        verdicts = self.session.verifiers.verify(pairs, self.session.style)
        if len(verdicts) != len(pairs):
            raise AgonError(
                f"the verifier returned {len(verdicts)} verdicts for {len(pairs)} completions: mend the verifier"
            )
        return verdicts

    def _request(self, prompt: Prompt, adapter: str | None, max_tokens: int, *names: str | int) -> Request:
        return Request(
            prompt_ids=prompt.token_ids,
            adapter=adapter,
            max_tokens=max_tokens,
            seed=stream_seed(self.seed, *self.stream, *names),
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
        )

    def _generate(
        self, role: Role, problems: list[Problem], prompts: list[Prompt], requests: list[Request]
    ) -> _Sampled:
        completions = self.session.engine.generate(requests)
        check_completions(requests, completions, self.session.versions)
        return _Sampled(role, problems, prompts, completions)


def _attempts(sampled: _Sampled, verdicts: Future[list[Verdict]] | list[Verdict], session: Session) -> list[Attempt]:
    judged = verdicts.result() if isinstance(verdicts, Future) else verdicts
    return [
        Attempt(
            role=sampled.role,
            adapter=completion.adapter,
            prompt=prompt,
            completion=completion,
            verdict=verdict,
            format_score=format_score(completion.text, session.style, is_truncated=completion.is_truncated),
        )
        for prompt, completion, verdict in zip(sampled.prompts, sampled.completions, judged, strict=True)
    ]


def _match(
    place: tuple[Problem, int],
    drafts: list[Attempt],
    lineup: Lineup,
    shown: Sequence[tuple[Summary, ...]],
    answers: list[Attempt] | None,
    index: int,
    session: Session,
) -> Match:
    problem, sample = place
    return Match(
        problem=problem,
        sample=sample,
        drafts=tuple(drafts),
        summaries=shown[index] if shown else (),
        challenge=answers[index] if answers is not None else None,
        chosen=_chosen(drafts, lineup, session),
    )


def _chosen(drafts: Sequence[Attempt], lineup: Lineup, session: Session) -> int:
    """Number of the draft that counts: the second of a blind pair, the majority's first, or the first."""
    if lineup.second_counts:
        return 1
    if not lineup.vote:
        return 0
    votes = [None if attempt.completion.is_truncated else _vote(attempt.completion.text, session) for attempt in drafts]
    cast = [vote for vote in votes if vote is not None]
    # max keeps the first of equals, so a tie goes to the answer that was given first.
    return votes.index(max(dict.fromkeys(cast), key=cast.count)) if cast else 0


def _vote(text: str, session: Session) -> str | Fraction | None:
    """Return what an answer is counted as: a number by its value (18 and 18.0 are one answer), anything else as written."""
    answer = extract_answer(text, session.style)
    if answer is None:
        return None
    number = read_number(answer)
    return answer.strip() if number is None or number.is_percent else number.value
