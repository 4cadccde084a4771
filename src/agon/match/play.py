"""Play matches: the one place where a draft meets a challenge. Training, evaluation, `solve` and the server all call it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from agon.answers import format_score
from agon.errors import AgonError
from agon.match.ahead import Joining, ReadAhead
from agon.match.asking import Asked, Asker, Sampling
from agon.match.reading import Reader, Seats, take_seats
from agon.match.session import Session
from agon.match.voting import chosen_draft, confidence
from agon.records import AnswerStyle, Attempt, Completion, Lineup, Match, Problem, Request, Summary, Verdict
from agon.rollout.checks import check_completions
from agon.rollout.engine import GrowingEngine

# They wait for checking processes most of the time.
_CHECKING_THREADS = 16


class _Sampled(NamedTuple):
    asked: Asked
    completions: list[Completion]
    verdicts: list[Future[Verdict]]


class _Played(NamedTuple):
    """Drafts layer by layer; what each place read of every layer but the last; what each challenger read, by match; the challenges."""

    layers: list[_Sampled]
    between: list[list[tuple[Summary, ...]]]
    shown: dict[int, tuple[Summary, ...]]
    challenges: _Sampled


def play(
    session: Session,
    problems: Sequence[Problem],
    lineup: Lineup,
    *,
    samples: int,
    sampling: Sampling,
    seed: int,
    stream: tuple[str | int, ...],
    among: Sequence[Problem] | None = None,
) -> list[list[Match]]:
    """Play `samples` matches of every problem and return them problem by problem.

    A challenge reads what the drafts left that the line-up gives it to read, as a rule those of its own match: the text after their
    reasoning, the answer withheld. Every completion draws from a random stream of its own, named by `stream`, the problem, the sample and
    the stage, so that a match does not depend on what else is played beside it. Each completion is checked as soon as it ends, while others
    are still sampled; where the engine lets a batch grow, a challenge joins as soon as it can be asked for (with several layers of
    drafts, stage by stage).

    `among` are all the problems of which these are a part: from them come the placebos (default: `problems`).

    Raises:
        DataError: a placebo is to be read, but there is no other problem.
        EngineError: the engine returned something unusable.
        VerifierError: too large a share of the checks failed by the checkers' own fault.
    """
    seats = take_seats(problems, samples, lineup.reads, among=problems if among is None else among)
    with _checking_threads() as threads:
        player = _Player(session, seats, lineup, sampling=sampling, seed=seed, stream=stream, threads=threads)
        played = player.sample()
        sampled = time.perf_counter()
        layers = [_attempts(layer, session) for layer in played.layers]
        challenges = dict(zip(played.shown, _attempts(played.challenges, session), strict=True))
        session.verify_wait_seconds += time.perf_counter() - sampled
    session.verifiers.check_error_share()
    matches = [
        _match(
            number, seats, played, layers=layers, challenge=challenges.get(number), lineup=lineup, style=session.style
        )
        for number in range(len(seats.matches))
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
        seats: Seats,
        lineup: Lineup,
        *,
        sampling: Sampling,
        seed: int,
        stream: tuple[str | int, ...],
        threads: ThreadPoolExecutor,
    ) -> None:
        self.session = session
        self.seats = seats
        self.lineup = lineup
        self.threads = threads
        self.asker = Asker(session.prompts, lineup, sampling, seed=seed, stream=stream)
        self.reader = Reader(session, seats, lineup, max_tokens=sampling.max_summary_tokens)

    def sample(self) -> _Played:
        """Sample every stage of every match."""
        drafts, lineup, engine = self.asker.drafts(self.seats.drafting), self.lineup, self.session.engine
        is_one_exchange = lineup.has_challenge and lineup.layers == 1
        if is_one_exchange and isinstance(engine, GrowingEngine) and engine.can_grow:
            return self._sample_growing(engine, drafts)
        if is_one_exchange and lineup.doubt is None:
            ahead = ReadAhead(self.reader, self.asker, self.seats, threads=self.threads)
            layer = self._generate(drafts, ahead)
            shown, prompts = ahead.finish()
            return _Played([layer], [], shown, self._generate(self.asker.challenges(self.seats.matches, prompts)))
        layers, between = [self._generate(drafts)], list[list[tuple[Summary, ...]]]()
        for number in range(2, lineup.layers + 1):
            ended = dict(enumerate(layers[-1].completions))
            between.append([self.reader.of_place(place, ended) for place in range(len(self.seats.drafting))])
            layers.append(self._generate(self.asker.layer(number, self.seats.drafting, between[-1])))
        ended = dict(enumerate(layers[-1].completions))
        shown = {
            match: self.reader.for_challenge(match, ended)
            for match in range(len(self.seats.matches))
            if self._is_challenged(match, ended)
        }
        places = [self.seats.matches[match] for match in shown]
        prompts = [self.asker.challenge_prompt(places[i][0], summaries) for i, summaries in enumerate(shown.values())]
        asked = self.asker.challenges(places, prompts)
        challenges = self._generate(asked) if shown else _Sampled(asked, [], [])
        return _Played(layers, between, shown, challenges)

    def _sample_growing(self, engine: GrowingEngine, drafts: Asked) -> _Played:
        """Let each challenge join the batch when the drafts on which it depends have ended."""
        num_drafts = len(drafts.requests)
        checks: dict[int, Future[Verdict]] = {}
        joining = Joining(self.reader, self.asker, self.seats, is_challenged=self._is_challenged)

        def grow(index: int, completion: Completion) -> Iterable[Request]:
            is_draft = index < num_drafts
            problem = drafts.problems[index] if is_draft else joining.joined[index - num_drafts].problems[0]
            checks[index] = self._check(problem, completion)
            return joining.end(index, completion) if is_draft else ()

        adapters = [*self.lineup.drafters, self.lineup.challenger]
        started = time.perf_counter()
        completions = engine.grow([*drafts.requests, *joining.begin()], grow, adapters=adapters)
        self.session.engine_seconds += time.perf_counter() - started
        later = {index - num_drafts: check for index, check in checks.items()}
        return _Played(
            [self._sampled(drafts, completions[:num_drafts], checks)],
            [],
            joining.shown,
            self._sampled(joining.together(), completions[num_drafts:], later),
        )

    def _is_challenged(self, match: int, ended: Mapping[int, Completion]) -> bool:
        if not self.lineup.has_challenge or self.lineup.doubt is None:
            return self.lineup.has_challenge
        drafts = [ended[number] for number in self.reader.drafts_of(match)]
        return confidence(drafts, self.lineup.doubt, self.session.style) < self.lineup.threshold

    def _generate(self, asked: Asked, ahead: ReadAhead | None = None) -> _Sampled:
        checks: dict[int, Future[Verdict]] = {}

        def check(index: int, completion: Completion) -> None:
            checks[index] = self._check(asked.problems[index], completion)
            if ahead is not None:
                ahead.end(index, completion)

        started = time.perf_counter()
        completions = self.session.engine.generate(asked.requests, check)
        self.session.engine_seconds += time.perf_counter() - started
        return self._sampled(asked, completions, checks)

    def _sampled(self, asked: Asked, completions: list[Completion], checks: dict[int, Future[Verdict]]) -> _Sampled:
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
    number: int,
    seats: Seats,
    played: _Played,
    *,
    layers: Sequence[Sequence[Attempt]],
    challenge: Attempt | None,
    lineup: Lineup,
    style: AnswerStyle,
) -> Match:
    problem, sample = seats.matches[number]
    count = len(lineup.drafters)
    own = slice(number * count, (number + 1) * count)
    drafts = tuple(layers[-1][own])
    return Match(
        problem=problem,
        sample=sample,
        drafts=drafts,
        summaries=played.shown.get(number, ()),
        challenge=challenge,
        chosen=chosen_draft([draft.completion for draft in drafts], lineup, style),
        earlier=tuple(attempt for layer in layers[:-1] for attempt in layer[own]),
        earlier_summaries=tuple(summary for shown in played.between for summary in shown[number]),
    )
