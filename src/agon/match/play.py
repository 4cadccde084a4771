"""Play matches: the one place where a draft meets a challenge. Training, evaluation, `solve` and the server all call it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from agon.answers import extract_answer, format_score
from agon.errors import AgonError
from agon.match.session import Session
from agon.numerals import read_number
from agon.records import Attempt, Completion, Lineup, Match, Problem, Prompt, Request, Role, Summary, Verdict
from agon.rollout.checks import check_completions
from agon.rollout.engine import GrowingEngine
from agon.seeding import stream_seed

# They wait for checking processes most of the time.
_CHECKING_THREADS = 16


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are sampled, stage by stage. Units: tokens."""

    max_draft_tokens: int
    max_challenge_tokens: int
    max_summary_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


_Place = tuple[Problem, int]


class _Asked(NamedTuple):
    role: Role
    problems: list[Problem]
    prompts: list[Prompt]
    requests: list[Request]


class _Sampled(NamedTuple):
    asked: _Asked
    completions: list[Completion]
    verdicts: list[Future[Verdict]]


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
    played beside it. Each completion is checked as soon as it ends, while others are still sampled; where the engine lets a batch
    grow, its challenge joins at once.

    Raises:
        EngineError: the engine returned something unusable.
        VerifierError: too large a share of the checks failed by the checkers' own fault.
    """
    places = [(problem, sample) for problem in problems for sample in range(samples)]
    per_match = len(lineup.drafters)
    with _checking_threads() as threads:
        player = _Player(session, sampling, seed, stream, threads)
        drafts, shown, challenges = player.sample(places, lineup)
        sampled = time.perf_counter()
        attempts = _attempts(drafts, session)
        answers = None if challenges is None else _attempts(challenges, session)
        session.verify_wait_seconds += time.perf_counter() - sampled
    session.verifiers.check_error_share()
    matches = [
        _match(place, attempts[i * per_match : (i + 1) * per_match], lineup, shown, answers, i, session)
        for i, place in enumerate(places)
    ]
    return [matches[i : i + samples] for i in range(0, len(matches), samples)]


@contextmanager
def _checking_threads() -> Generator[ThreadPoolExecutor]:
    """Threads to check in; what is still queued when an error ends the match is dropped."""
    threads = ThreadPoolExecutor(_CHECKING_THREADS, thread_name_prefix="agon-check")
    try:
        yield threads
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


class _Player:
    """The arguments that every stage of one call of `play` shares."""

    def __init__(
        self,
        session: Session,
        sampling: Sampling,
        seed: int,
        stream: tuple[str | int, ...],
        threads: ThreadPoolExecutor,
    ) -> None:
        self.session = session
        self.sampling = sampling
        self.seed = seed
        self.stream = stream
        self.threads = threads

    def sample(
        self, places: Sequence[_Place], lineup: Lineup
    ) -> tuple[_Sampled, list[tuple[Summary, ...]], _Sampled | None]:
        """Return the drafts, what of them is shown match by match, and the challenges."""
        asked = self._ask_drafts(places, lineup)
        engine = self.session.engine
        if lineup.has_challenge and isinstance(engine, GrowingEngine) and engine.can_grow:
            return self._sample_growing(engine, asked, places, lineup)
        drafts = self._generate(asked)
        if not lineup.has_challenge:
            return drafts, [], None
        per_match = len(lineup.drafters)
        shown = [
            self._summaries(asked, drafts.completions, i, per_match) for i in range(0, len(asked.requests), per_match)
        ]
        return drafts, shown, self._generate(self._ask_challenges(places, shown, lineup))

    def _sample_growing(
        self, engine: GrowingEngine, asked: _Asked, places: Sequence[_Place], lineup: Lineup
    ) -> tuple[_Sampled, list[tuple[Summary, ...]], _Sampled]:
        """Let each challenge join the batch when the drafts it reads have ended."""
        per_match, num_drafts = len(lineup.drafters), len(asked.requests)
        done: dict[int, Completion] = {}
        shown: dict[int, tuple[Summary, ...]] = {}
        single: dict[int, _Asked] = {}
        checks: dict[int, Future[Verdict]] = {}

        def grow(index: int, completion: Completion) -> Iterable[Request]:
            is_draft = index < num_drafts
            problem = asked.problems[index] if is_draft else places[list(single)[index - num_drafts]][0]
            done[index], checks[index] = completion, self._check(problem, completion)
            match = index // per_match
            own = range(match * per_match, (match + 1) * per_match)
            if not is_draft or not all(i in done for i in own):
                return ()
            shown[match] = self._summaries(asked, done, own[0], per_match)
            single[match] = self._ask_challenges([places[match]], [shown[match]], lineup)
            return single[match].requests

        adapters = [*lineup.drafters, lineup.challenger]
        started = time.perf_counter()
        completions = engine.grow(asked.requests, grow, adapters=adapters)
        self.session.engine_seconds += time.perf_counter() - started
        # Challenges come in the order in which they joined.
        joined = {match: num_drafts + number for number, match in enumerate(single)}
        order = [joined[match] for match in range(len(places))]
        challenges = _Asked(
            "challenger",
            [problem for problem, _ in places],
            [single[match].prompts[0] for match in range(len(places))],
            [single[match].requests[0] for match in range(len(places))],
        )
        drafts = self._sampled(asked, completions[:num_drafts], checks)
        answers = self._sampled(
            challenges, [completions[i] for i in order], {number: checks[i] for number, i in enumerate(order)}
        )
        return drafts, [shown[match] for match in range(len(places))], answers

    def _ask_drafts(self, places: Sequence[_Place], lineup: Lineup) -> _Asked:
        prompt_of = {problem.id: self.session.prompts.draft(problem) for problem, _ in places}
        problems = [problem for problem, _ in places for _ in lineup.drafters]
        cap = self.sampling.max_draft_tokens
        requests = [
            self._request(prompt_of[problem.id], adapter, cap, "draft", problem.id, sample, number)
            for problem, sample in places
            for number, adapter in enumerate(lineup.drafters)
        ]
        return _Asked("drafter", problems, [prompt_of[problem.id] for problem in problems], requests)

    def _ask_challenges(self, places: Sequence[_Place], shown: Sequence[tuple[Summary, ...]], lineup: Lineup) -> _Asked:
        problems = [problem for problem, _ in places]
        prompts = [
            self.session.prompts.challenge(problem, summaries)
            for problem, summaries in zip(problems, shown, strict=True)
        ]
        cap = self.sampling.max_challenge_tokens
        requests = [
            self._request(prompt, lineup.challenger, cap, "challenge", problem.id, sample, 0)
            for (problem, sample), prompt in zip(places, prompts, strict=True)
        ]
        return _Asked("challenger", problems, prompts, requests)

    def _summaries(
        self, asked: _Asked, completions: Sequence[Completion] | dict[int, Completion], first: int, count: int
    ) -> tuple[Summary, ...]:
        limit = self.sampling.max_summary_tokens
        return tuple(
            self.session.summarize(asked.problems[i], completions[i], max_tokens=limit)
            for i in range(first, first + count)
        )

    def _request(self, prompt: Prompt, adapter: str | None, max_tokens: int, *names: str | int) -> Request:
        return Request(
            prompt_ids=prompt.token_ids,
            adapter=adapter,
            max_tokens=max_tokens,
            seed=stream_seed(self.seed, *self.stream, *names),
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
        )

    def _generate(self, asked: _Asked) -> _Sampled:
        checks: dict[int, Future[Verdict]] = {}

        def check(index: int, completion: Completion) -> None:
            checks[index] = self._check(asked.problems[index], completion)

        started = time.perf_counter()
        completions = self.session.engine.generate(asked.requests, check)
        self.session.engine_seconds += time.perf_counter() - started
        return self._sampled(asked, completions, checks)

    def _sampled(self, asked: _Asked, completions: list[Completion], checks: dict[int, Future[Verdict]]) -> _Sampled:
        session = self.session
        check_completions(asked.requests, completions, session.versions, max_lag=session.max_lag)
        return _Sampled(asked, completions, [checks[index] for index in range(len(completions))])

    def _check(self, problem: Problem, completion: Completion) -> Future[Verdict]:
        return self.threads.submit(_verify, self.session, problem, completion)


def _verify(session: Session, problem: Problem, completion: Completion) -> Verdict:
    verdicts = session.verifiers.verify([(problem, completion)], session.style)
    if len(verdicts) != 1:
        raise AgonError(f"the verifier returned {len(verdicts)} verdicts for 1 completion: mend the verifier")
    return verdicts[0]


def _attempts(sampled: _Sampled, session: Session) -> list[Attempt]:
    return [
        Attempt(
            role=sampled.asked.role,
            adapter=completion.adapter,
            prompt=prompt,
            completion=completion,
            verdict=verdict.result(),
            format_score=format_score(completion.text, session.style, is_truncated=completion.is_truncated),
        )
        for prompt, completion, verdict in zip(
            sampled.asked.prompts, sampled.completions, sampled.verdicts, strict=True
        )
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
