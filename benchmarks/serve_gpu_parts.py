"""What `serve_gpu.py` measures: one pair in one engine, asked directly, step by step, through the server's core, and through the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from serve_gpu_pair_parts import GOLD, Pair, questions

from agon.match.exchange import exchange_of
from agon.match.play import play
from agon.methods.registry import method_named
from agon.records import Problem
from agon.serve.access import Limits
from agon.serve.admission import Admission
from agon.serve.app import create_app
from agon.serve.cascade import play_job
from agon.serve.engine import EngineBackend
from agon.serve.models import Offer, run_models
from agon.serve.records import Job, MatchEnded
from agon.serve.server import bind, serve
from agon.serve.service import Service

Numbers = dict[str, Any]

SEED = 11
HOST = "127.0.0.1"
CLIENT = Path(__file__).with_name("serve_gpu_client_parts.py")


class Layers:
    """Each layer turns a number of problems, all at once, into numbers."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def direct(self, count: int) -> Numbers:
        """`match.play`, as training and evaluation call it."""
        problems, started = self.pair.problems(count), time.perf_counter()
        matches = play(
            self.pair.session,
            problems,
            self.pair.lineup,
            samples=1,
            sampling=self.pair.sampling,
            seed=SEED,
            stream=("solve",),
        )
        seconds = time.perf_counter() - started
        tokens = sum(attempt.completion.num_tokens for (match,) in matches for attempt in match.attempts)
        return self._numbers(tokens, seconds, [at - started for at in self.pair.clock.times.values()])

    def stepped(self, count: int) -> Numbers:
        """The stepping engine and one exchange a problem, without event loop or threads."""
        started, tokens, ends, engine = time.perf_counter(), 0, list[float](), self.pair.stepping
        open_turns: dict[int, tuple[Any, int]] = {}

        def add(exchange: Any, turns: Sequence[Any]) -> None:
            first = len(exchange.turns) - len(turns)
            for number, turn in enumerate(turns, first):
                open_turns[engine.add(turn.request)] = (exchange, number)

        for problem in self.pair.problems(count):
            exchange = self._exchange(problem)
            add(exchange, exchange.begin())
        while engine.num_open:
            for progress in engine.step():
                if progress.completion is None:
                    continue
                exchange, number = open_turns.pop(progress.key)
                self.pair.clock.verify([(exchange.turns[number].problem, progress.completion)], self.pair.session.style)
                tokens += progress.completion.num_tokens
                turns = exchange.end(number, progress.completion)
                add(exchange, turns)
                if not turns:
                    ends.append(time.perf_counter() - started)
        return self._numbers(tokens, time.perf_counter() - started, ends)

    def jobs(self, count: int) -> Numbers:
        """The server's core, engine thread and event loop, without HTTP."""

        async def one(job: Job, started: float) -> tuple[int, float]:
            async with aclosing(play_job(backend, job, self.pair.check)) as events:
                matches = [event.match async for event in events if isinstance(event, MatchEnded)]
            tokens = sum(attempt.completion.num_tokens for match in matches for attempt in match.attempts)
            return tokens, time.perf_counter() - started

        async def run() -> Numbers:
            await backend.start()
            try:
                started = time.perf_counter()
                done = await asyncio.gather(*(one(job, started) for job in asked))
                seconds = time.perf_counter() - started
                return self._numbers(sum(tokens for tokens, _ in done), seconds, [at for _, at in done])
            finally:
                await backend.close()

        asked = [self._job(problem) for problem in self.pair.problems(count)]
        backend = EngineBackend(self.pair.stepping, self.pair.reader)
        return asyncio.run(run())

    def served(self, count: int, **fields: Any) -> Numbers:
        """The whole server on a loopback port, asked by another process. `fields` go into every request."""
        service = Service(
            offer=self._offer(),
            backend=EngineBackend(self.pair.stepping, self.pair.reader),
            check=self.pair.check,
            admission=Admission(max_running=self.pair.settings.rollout.max_rows, max_queue=count),
            limits=Limits(),
        )
        bodies = [json.dumps(body_of(text) | fields) for text in questions(count)]
        taken, result = bind(HOST, 0), Numbers()

        def ask() -> None:
            try:
                result.update(asked(taken.getsockname()[1], bodies))
                result["threads"] = thread_seconds()
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        client = threading.Thread(target=ask)
        before = time.thread_time()
        serve(create_app(service), service, taken, grace_s=5.0, on_ready=client.start)
        loop_s = time.thread_time() - before
        client.join()
        told = {"loop_cpu_s": loop_s, "engine_cpu_s": result["threads"]["agon-engine"]}
        return told | self._told(result["requests"], result["seconds"])

    def _told(self, requests: Sequence[Numbers], seconds: float) -> Numbers:
        failed = [request for request in requests if request.get("error")]
        if failed:
            print(f"{len(failed)} requests failed, the first: {failed[0]}", flush=True)
        tokens = sum(request.get("tokens", 0) for request in requests)
        numbers = self._numbers(tokens, seconds, [request["seconds"] for request in requests])
        added = [one["seconds"] - sum(one["stage_seconds"]) for one in requests if one.get("stage_seconds")]
        if added:
            numbers |= {"added_median_s": statistics.median(added), "added_p99_s": percentile(added, 99)}
        events = sum(request.get("events", 0) for request in requests)
        return numbers | {"failed": len(failed)} | ({"events": events} if events else {})

    def _exchange(self, problem: Problem) -> Any:
        return exchange_of(
            problem,
            self.pair.lineup,
            prompts=self.pair.session.prompts,
            summarizer=self.pair.session.summarizer,
            style=self.pair.session.style,
            samples=1,
            sampling=self.pair.sampling,
            seed=SEED,
            stream=("solve",),
        )

    def _job(self, problem: Problem) -> Job:
        return Job(
            problem=problem,
            can_check=True,
            lineup=self.pair.lineup,
            sampling=self.pair.sampling,
            prompts=self.pair.session.prompts,
            summarizer=self.pair.session.summarizer,
            style=self.pair.session.style,
            seed=SEED,
            wants_text=False,
        )

    def _offer(self) -> Offer:
        return Offer(
            name="benchmark",
            models=run_models(method_named("agon"), "a-b"),
            sampling=self.pair.sampling,
            prompts=self.pair.session.prompts,
            summarizer=self.pair.session.summarizer,
            style=self.pair.session.style,
            task=self.pair.settings.task,
        )

    def _numbers(self, tokens: int, seconds: float, ends: Sequence[float]) -> Numbers:
        """`core` is the engine itself, `step` the stepping engine around it."""
        return {
            "tokens": tokens,
            "seconds": seconds,
            "rate": tokens / seconds,
            "median_s": statistics.median(ends),
            "p99_s": percentile(ends, 99),
            "core_steps": self.pair.core_steps,
            "core_s": self.pair.core_seconds,
            "steps": self.pair.stepping.steps,
            "step_s": self.pair.stepping.seconds,
            "gc_s": self.pair.gc_seconds,
        }


def body_of(question: str) -> Numbers:
    return {"messages": [{"role": "user", "content": question}], "seed": SEED, "temperature": 1.0, "gold": GOLD}


def asked(port: int, bodies: Sequence[str]) -> Numbers:
    done = subprocess.run(
        [sys.executable, "-S", str(CLIENT), HOST, str(port)],
        input="\n".join(bodies),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def percentile(values: Sequence[float], share: int) -> float:
    """The smallest value that `share` per cent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-len(ordered) * share // 100) - 1)]


def thread_seconds() -> dict[str, float]:
    """CPU seconds of this process's named threads so far: the event loop's is MainThread."""
    tick = os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for thread in threading.enumerate():
        stat = Path(f"/proc/self/task/{thread.native_id}/stat")
        if stat.exists():
            fields = stat.read_text().rpartition(")")[2].split()
            found[thread.name] = (int(fields[11]) + int(fields[12])) / tick
    return found


def layer_named(pair: Pair, name: str) -> Callable[[int], Numbers]:
    """Return what measures a layer, given the number of problems."""
    own = Layers(pair)
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    layers: dict[str, Callable[[int], Numbers]] = {
        "direct": own.direct,
        "stepped": own.stepped,
        "jobs": own.jobs,
        "server": own.served,
        "stream": lambda count: own.served(count, **streamed),
        "stream-draft": lambda count: own.served(count, **streamed, include_draft=True),
    }
    return layers[name]
