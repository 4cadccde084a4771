"""One job from its problem to its last match: every turn sampled as soon as it can be asked for, and told of as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, NamedTuple, TypeVar

from agon.errors import ConfigError, EngineError
from agon.match.exchange import Turn, exchange_of
from agon.match.unchecked import unchecked_verdict
from agon.records import Completion, Verdict
from agon.serve.backend import Backend
from agon.serve.checking import Check, verdict_of
from agon.serve.records import Crossed, EndedStage, Event, Job, MatchEnded, StageBegan, StageEnded, StageGrew
from agon.serve.stops import until_stop

# That of `agon solve`: a request with its seed gets the same match.
_STREAM = ("solve",)

# Longer ones are tokenised and searched in a thread, so that the event loop does not wait for them. Tokenizers let other threads go on:
# where many drafts end at once, their challenges are written side by side, and the first are sampled meanwhile.
_LONG_PROBLEM = 4_000
_LONG_DRAFT = 500

Made = TypeVar("Made")


class _TurnJudged(NamedTuple):
    """The verdict on a turn is there."""

    number: int
    verdict: Verdict


class _TurnEnded(NamedTuple):
    """A turn has ended."""

    number: int
    ended: EndedStage


_News = Event | _TurnEnded | _TurnJudged | Exception


async def play_job(backend: Backend, job: Job, check: Check) -> AsyncGenerator[Event]:
    """Play the job's matches side by side, and yield what happens; the events of each match in the order of its stages.

    A job gets the tokens that `match.play` gives the same seed. A stop string ends the final text before it, and its turn is given up; the
    cut completion's adapter version is 0 if it never came to its own end. Closing the generator gives everything up at once: wrap it
    in `contextlib.aclosing`.

    Raises:
        ConfigError: stop strings, where only the end of a match tells which text is final.
        EngineError: the first turn that failed; the others of the job are given up.
    """
    is_known = job.is_final("challenger" if job.lineup.has_challenge else "drafter") and job.lineup.doubt is None
    if job.stop and not is_known:
        raise ConfigError(
            "stop strings end the final text, but among several drafts it is known too late: leave them out"
        )
    play = _Play(backend, job, check)
    try:
        for event in await play.begin():
            yield event
        while play.is_open:
            for event in await play.next():
                yield event
    finally:
        await play.give_up()


class _Play:
    """What has been asked for, what is awaited, and what has come."""

    def __init__(self, backend: Backend, job: Job, check: Check) -> None:
        self._backend = backend
        self._job = job
        self._check = check
        self._exchange = exchange_of(
            job.problem,
            job.lineup,
            prompts=job.prompts,
            summarizer=job.summarizer,
            style=job.style,
            samples=job.samples,
            sampling=job.sampling,
            seed=job.seed,
            stream=_STREAM,
        )
        self._verdicts: dict[int, Verdict] = {}
        self._unfinished = set(range(job.samples))
        self._tasks: set[asyncio.Task[None]] = set()
        self._news: asyncio.Queue[_News] = asyncio.Queue()

    @property
    def is_open(self) -> bool:
        return bool(self._unfinished)

    async def begin(self) -> list[Event]:
        is_long = len(self._job.problem.question) >= _LONG_PROBLEM
        turns = await _called(self._exchange.begin, in_thread=is_long)
        return self._begin_turns(turns, first=0)

    async def next(self) -> list[Event]:
        """Wait for news, and return what the client is told of them."""
        news = await self._news.get()
        match news:
            case Exception():
                raise news
            case _TurnEnded(number, ended):
                return await self._end(number, ended)
            case _TurnJudged(number, verdict):
                self._verdicts[number] = verdict
                return self._finish()
            case _:
                return [news]

    async def give_up(self) -> None:
        """Cancel what is still going on, and return when it has let go."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _end(self, number: int, ended: EndedStage) -> list[Event]:
        turn, completion, first = self._exchange.turns[number], ended.completion, len(self._exchange.turns)
        if self._job.can_check:
            self._start(self._judge(number, completion))
        else:
            self._verdicts[number] = unchecked_verdict(completion, self._job.style)
        is_long = self._job.lineup.has_challenge and turn.role == "drafter" and len(completion.text) >= _LONG_DRAFT
        turns = await _called(lambda: self._exchange.end(number, completion), in_thread=is_long)
        is_final, stage = self._job.is_final(turn.role), self._stage(number)
        told = StageEnded(turn.place, turn.role, ended, is_final, stage)
        return [told, *self._begin_turns(turns, first), *self._finish()]

    def _finish(self) -> list[Event]:
        """Return the matches that are over and judged."""
        over = [
            sample
            for sample in sorted(self._unfinished)
            if self._exchange.is_over(sample) and self._verdicts.keys() >= set(self._exchange.turns_of(sample))
        ]
        self._unfinished.difference_update(over)
        return [MatchEnded(sample, self._exchange.match(sample, self._verdicts)) for sample in over]

    def _begin_turns(self, turns: Sequence[Turn], first: int) -> list[Event]:
        """Let turns be sampled, and return what is told of it. `first` is the number of the first."""
        events: list[Event] = []
        for number, turn in enumerate(turns, first):
            shown = self._exchange.shown.get(turn.place) if turn.role == "challenger" else None
            if shown:
                events.append(Crossed(turn.place, shown))
            events.append(StageBegan(turn.place, turn.role, turn.request.adapter, self._stage(number)))
            self._start(self._run_turn(number, turn))
        return events

    def _stage(self, number: int) -> int:
        """Return where a turn stands in its match."""
        return self._exchange.turns_of(self._exchange.turns[number].place).index(number)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge(self, number: int, completion: Completion) -> None:
        self._news.put_nowait(_TurnJudged(number, await verdict_of(self._job, completion, self._check)))

    async def _run_turn(self, number: int, turn: Turn) -> None:
        """Sample a turn, and tell of it. Whatever goes wrong is news, too: the others must not wait for this one."""
        try:
            self._news.put_nowait(_TurnEnded(number, await self._sample(turn, self._stage(number))))
        except asyncio.CancelledError:
            self._news.put_nowait(EngineError(f"the {turn.role}'s turn was given up by what samples it"))
            raise
        except Exception as error:
            self._news.put_nowait(error)

    async def _sample(self, turn: Turn, stage: int) -> EndedStage:
        job, is_final = self._job, self._job.is_final(turn.role)
        is_read = job.is_read_as_it_grows(turn.role)
        async with AsyncExitStack() as opened:
            pieces = await opened.enter_async_context(aclosing(self._backend.sample(turn, job)))
            if is_final and job.stop:
                pieces = await opened.enter_async_context(aclosing(until_stop(pieces, job.stop, turn)))
            async for piece in pieces:
                if is_read and (piece.text or piece.token_ids):
                    told = (piece.text, piece.token_ids, piece.logprobs, is_final, stage)
                    self._news.put_nowait(StageGrew(turn.place, turn.role, *told))
                if piece.ended is not None:
                    return piece.ended
        raise EngineError(f"the {turn.role}'s turn ended without its completion: what samples it broke off")


async def _called(function: Callable[[], Made], *, in_thread: bool) -> Made:
    return await asyncio.to_thread(function) if in_thread else function()
