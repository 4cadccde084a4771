"""Play matches in batches, as training and evaluation do. The server and `agon solve` play turn by turn: see `exchange.py`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from agon.errors import AgonError
from agon.match.ahead import ReadAhead
from agon.match.asking import Asked, Asker, Sampling
from agon.match.assemble import Played, Stage, matches_of
from agon.match.exchange import Exchange
from agon.match.reading import Reader, Seats, take_seats
from agon.match.session import Session
from agon.match.voting import is_challenged
from agon.records import Completion, Lineup, Match, Problem, Request, Summary, Verdict
from agon.rollout.checks import check_completions
from agon.rollout.engine import GrowingEngine
from agon.verifiers.base import CHECKING_THREADS


class _Sampled(NamedTuple):
    asked: Asked
    completions: list[Completion]
    verdicts: list[Future[Verdict]]

    def wait(self) -> Stage:
        return Stage(self.asked, self.completions, [verdict.result() for verdict in self.verdicts])


class _Unjudged(NamedTuple):
    """As `Played`, while verdicts are still awaited."""

    layers: list[_Sampled]
    between: list[list[tuple[Summary, ...]]]
    shown: dict[int, tuple[Summary, ...]]
    challenges: _Sampled

    def wait(self) -> Played:
        return Played([layer.wait() for layer in self.layers], self.between, self.shown, self.challenges.wait())


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
        sampled = player.sample()
        started = time.perf_counter()
        played = sampled.wait()
        session.verify_wait_seconds += time.perf_counter() - started
    session.verifiers.check_error_share()
    matches = matches_of(played, seats.matches, lineup=lineup, style=session.style)
    return [matches[i : i + samples] for i in range(0, len(matches), samples)]


@contextmanager
def _checking_threads() -> Generator[ThreadPoolExecutor]:
    """Threads to check in. An error or an interrupt that ends the match waits for no check: one may hang."""
    threads = ThreadPoolExecutor(CHECKING_THREADS, thread_name_prefix="agon-check")
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


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
        self.reader = Reader(session.summarizer, seats, lineup, max_tokens=sampling.max_summary_tokens)

    def sample(self) -> _Unjudged:
        """Sample every stage of every match."""
        lineup, engine = self.lineup, self.session.engine
        is_one_exchange = lineup.has_challenge and lineup.layers == 1
        if is_one_exchange and isinstance(engine, GrowingEngine) and engine.can_grow:
            return self._sample_growing(engine)
        drafts = self.asker.drafts(self.seats.drafting)
        if is_one_exchange and lineup.doubt is None:
            ahead = ReadAhead(self.reader, self.asker, self.seats, threads=self.threads)
            layer = self._generate(drafts, ahead)
            shown, prompts = ahead.finish()
            return _Unjudged([layer], [], shown, self._generate(self.asker.challenges(self.seats.matches, prompts)))
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
        return _Unjudged(layers, between, shown, challenges)

    def _sample_growing(self, engine: GrowingEngine) -> _Unjudged:
        """Let each challenge join the batch when the drafts on which it depends have ended."""
        exchange = Exchange(self.reader, self.asker, self.seats, lineup=self.lineup, style=self.session.style)
        checks: dict[int, Future[Verdict]] = {}

        def grow(index: int, completion: Completion) -> Iterable[Request]:
            checks[index] = self._check(exchange.turns[index].problem, completion)
            return [turn.request for turn in exchange.end(index, completion)]

        adapters = [*self.lineup.drafters, self.lineup.challenger]
        started = time.perf_counter()
        completions = engine.grow([turn.request for turn in exchange.begin()], grow, adapters=adapters)
        self.session.engine_seconds += time.perf_counter() - started
        drafts, challenges = exchange.asked()
        num_drafts = len(drafts.requests)
        later = {index - num_drafts: check for index, check in checks.items()}
        return _Unjudged(
            [self._sampled(drafts, completions[:num_drafts], checks)],
            [],
            exchange.shown,
            self._sampled(challenges, completions[num_drafts:], later),
        )

    def _is_challenged(self, match: int, ended: Mapping[int, Completion]) -> bool:
        return is_challenged(
            [ended[number] for number in self.reader.drafts_of(match)], self.lineup, self.session.style
        )

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
