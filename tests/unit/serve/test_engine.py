from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from contextlib import aclosing, asynccontextmanager

import pytest

from agon.errors import DivergedError, EngineError
from agon.match.exchange import Turn
from agon.records import Problem, Prompt, Request
from agon.serve.engine import EngineBackend

PROBLEM = Problem(id="p", question="q", gold="", task="t", verifier="exact")


def _turn(number=0, max_tokens=50, role="drafter"):
    return Turn(role, 0, PROBLEM, Prompt((1, number + 2), "ab"), Request((1, number + 2), "A", max_tokens, seed=number))


def _say(request):
    return f"text of {request.seed}."


@asynccontextmanager
async def _started(engine, reader, **options):
    backend = EngineBackend(engine, reader, **options)
    await backend.start()
    try:
        yield backend
    finally:
        if engine.gate is not None:
            engine.gate.release(1_000)
        await asyncio.wait_for(backend.close(), 10)
        assert engine.is_closed


async def _all(backend, turn, job):
    async with aclosing(backend.sample(turn, job)) as pieces:
        return [piece async for piece in pieces]


async def _until(is_true):
    deadline = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


def _run(scenario, engine, reader, **options):
    async def run():
        async with _started(engine, reader, **options) as backend:
            return await scenario(backend)

    return asyncio.run(run())


def test_many_turns_are_sampled_at_once_and_none_gets_another_ones_text(make_job, stepped_script, char_reader):
    engine = stepped_script(_say)

    async def scenario(backend):
        return await asyncio.gather(*(_all(backend, _turn(number), make_job()) for number in range(50)))

    for number, pieces in enumerate(_run(scenario, engine, char_reader, pause_s=0.0)):
        text = f"text of {number}."
        assert "".join(piece.text for piece in pieces) == text
        assert sum((piece.token_ids for piece in pieces), ()) == (*map(ord, text), 0)
        assert len(sum((piece.logprobs for piece in pieces), ())) == len(text) + 1
        assert [piece.ended is None for piece in pieces] == [True] * (len(pieces) - 1) + [False]
        ended = pieces[-1].ended
        assert (ended.completion.text, ended.completion.adapter_version) == (text, 7)
        assert (ended.num_prompt_tokens, ended.num_completion_tokens) == (2, len(text) + 1)
        assert 0 < ended.seconds < 10
    assert engine.num_open == 0


@pytest.mark.parametrize(
    ("fields", "role", "has_many"),
    [
        ({"wants_text": False}, "challenger", False),
        ({"wants_text": False, "stop": ("never",)}, "challenger", True),
        # Stop strings end final texts only.
        ({"wants_text": False, "stop": ("never",)}, "drafter", False),
        ({"wants_text": True}, "drafter", True),
        ({"wants_text": True, "shows_drafts": False}, "drafter", False),
        ({"wants_text": True, "shows_drafts": False}, "challenger", True),
    ],
)
def test_a_text_that_nobody_reads_as_it_grows_comes_in_one_piece(
    make_job, stepped_script, char_reader, fields, role, has_many
):
    engine = stepped_script(_say)
    pieces = _run(lambda backend: _all(backend, _turn(role=role), make_job(**fields)), engine, char_reader, pause_s=0.0)
    assert (len(pieces) > 1) == has_many
    assert "".join(piece.text for piece in pieces) == "text of 0."
    assert bool(pieces[0].token_ends) == (bool(fields.get("stop")) and role == "challenger")


def test_the_loop_is_woken_once_a_step_for_all_and_for_one_piece_each(make_job, stepped_script, char_reader):
    engine = stepped_script(_say)

    async def scenario(backend):
        loop = asyncio.get_running_loop()
        wakes, call = [], loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *arguments: wakes.append(arguments) or call(*arguments)
        try:
            taken = await asyncio.gather(
                *(_all(backend, _turn(number), make_job(wants_text=number < 10)) for number in range(30))
            )
        finally:
            del loop.call_soon_threadsafe
        return taken, wakes

    taken, wakes = _run(scenario, engine, char_reader, pause_s=3600.0)
    assert 0 < len(wakes) <= engine.num_steps + 1
    # The first piece at once, the last at the end, and nothing between.
    assert [len(pieces) for pieces in taken] == [2] * 10 + [1] * 20
    assert {pieces[0].text for pieces in taken[:10]} == {"t"}


def test_the_pieces_of_many_turns_get_longer(make_job, stepped_script, char_reader):
    async def scenario(backend):
        return await asyncio.gather(*(_all(backend, _turn(number), make_job()) for number in range(3)))

    for pause_for_each_s, counts in ((3600.0, {2}), (0.0, {11})):
        engine = stepped_script(_say)
        taken = _run(scenario, engine, char_reader, pause_s=0.0, pause_for_each_s=pause_for_each_s)
        assert {len(pieces) for pieces in taken} == counts
        assert {"".join(piece.text for piece in pieces) for pieces in taken} == {f"text of {n}." for n in range(3)}


def test_threads_wait_less_for_each_other_while_an_engine_runs(make_job, stepped_script, char_reader):
    before = sys.getswitchinterval()

    async def scenario(backend):
        await _all(backend, _turn(), make_job())
        return sys.getswitchinterval()

    assert _run(scenario, stepped_script(_say), char_reader) < before / 10
    assert sys.getswitchinterval() == before


def test_an_idle_engine_is_not_stepped(make_job, stepped_script, char_reader):
    engine = stepped_script(_say)

    async def scenario(backend):
        await _all(backend, _turn(), make_job())
        steps, started = engine.num_steps, time.process_time()
        await asyncio.sleep(0.03)
        assert engine.num_steps == steps
        assert time.process_time() - started < 0.02
        await _all(backend, _turn(), make_job())
        assert engine.num_steps > steps

    _run(scenario, engine, char_reader)


def test_closing_a_generator_cancels_before_the_next_step(make_job, stepped_script, char_reader):
    engine = stepped_script(_say, is_shut=True)

    async def scenario(backend):
        other = asyncio.create_task(_all(backend, _turn(1), make_job()))
        await _until(lambda: engine.added)
        async with aclosing(backend.sample(_turn(0), make_job())) as pieces:
            # One step for the other alone, in which the thread already is, and one for both.
            engine.gate.release(2)
            await anext(pieces)
            assert engine.num_steps == 2
        assert backend.num_open == 1
        engine.gate.release()
        await _until(lambda: engine.cancelled)
        # The step that was going on is the last with it.
        assert engine.num_steps <= 3
        engine.gate.release(100)
        pieces = await other
        assert pieces[-1].ended.completion.text == "text of 1."

    _run(scenario, engine, char_reader)
    assert len(engine.cancelled) == 1
    assert engine.added[engine.cancelled[0]].seed == 0


def test_a_turn_given_up_before_the_engine_heard_of_it_is_not_sampled(make_job, stepped_script, char_reader):
    engine = stepped_script(_say, is_shut=True)

    async def scenario(backend):
        first = asyncio.create_task(_all(backend, _turn(0), make_job()))
        await _until(lambda: engine.added)
        # The thread is in a step: it will hear of both orders at once.
        second = asyncio.create_task(_all(backend, _turn(1), make_job()))
        await asyncio.sleep(0.005)
        second.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await second
        engine.gate.release(100)
        await first

    _run(scenario, engine, char_reader)
    assert [request.seed for request in engine.added] == [0]
    assert engine.cancelled == []


def test_a_generator_that_was_never_started_asks_for_nothing(make_job, stepped_script, char_reader):
    engine = stepped_script(_say)

    async def scenario(backend):
        await backend.sample(_turn(), make_job()).aclose()
        await _all(backend, _turn(1), make_job())

    _run(scenario, engine, char_reader)
    assert [request.seed for request in engine.added] == [1]


def test_a_request_that_does_not_fit_is_refused_and_the_others_go_on(make_job, stepped_script, char_reader):
    engine = stepped_script(_say)

    async def refuse(backend):
        with pytest.raises(EngineError, match="the context holds 100"):
            await asyncio.wait_for(_all(backend, _turn(1, max_tokens=99), make_job()), 5)

    async def scenario(backend):
        await refuse(backend)
        good = asyncio.create_task(_all(backend, _turn(0), make_job()))
        await refuse(backend)
        backend.check_alive()
        assert (await good)[-1].ended is not None

    _run(scenario, engine, char_reader)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (EngineError("out of memory: lower max_rows"), "out of memory: lower max_rows"),
        (DivergedError("logits are not finite"), "logits are not finite"),
        (ZeroDivisionError("division by zero"), "the engine failed: ZeroDivisionError: division by zero"),
        (SystemExit(3), "the engine failed: SystemExit: 3"),
    ],
)
def test_an_engine_that_fails_tells_every_open_turn_and_refuses_later_ones(
    make_job, stepped_script, char_reader, failure, reason
):
    engine = stepped_script(_say, is_shut=True)

    async def scenario(backend):
        tasks = [asyncio.create_task(_all(backend, _turn(number), make_job())) for number in range(3)]
        await _until(lambda: engine.added)
        engine.failure = failure
        engine.gate.release()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert {(type(error), str(error)) for error in errors} == {(EngineError, reason)}
        with pytest.raises(EngineError) as dead:
            backend.check_alive()
        assert str(dead.value) == reason
        with pytest.raises(EngineError) as refused:
            await _all(backend, _turn(9), make_job())
        assert str(refused.value) == reason
        assert backend.num_open == 0

    _run(scenario, engine, char_reader)


def test_closing_ends_the_thread_and_every_open_turn(make_job, stepped_script, char_reader):
    engine = stepped_script(_say, is_shut=True)

    async def run():
        backend = EngineBackend(engine, char_reader)
        with pytest.raises(EngineError, match="not been started"):
            backend.check_alive()
        await backend.start()
        backend.check_alive()
        task = asyncio.create_task(_all(backend, _turn(), make_job()))
        await _until(lambda: engine.added)
        closing = asyncio.create_task(backend.close())
        with pytest.raises(EngineError, match="has closed its engine"):
            await task
        engine.gate.release(10)
        await closing
        assert engine.is_closed
        assert "agon-engine" not in [thread.name for thread in threading.enumerate()]
        with pytest.raises(EngineError, match="has closed its engine"):
            backend.check_alive()
        await backend.close()

    asyncio.run(run())


def test_a_step_that_never_comes_back_does_not_keep_the_server_from_ending(
    make_job, stepped_script, char_reader, monkeypatch
):
    monkeypatch.setattr("agon.serve.engine._MOST_CLOSING_S", 0.05)
    engine = stepped_script(_say, is_shut=True)

    async def run():
        backend = EngineBackend(engine, char_reader)
        await backend.start()
        task = asyncio.create_task(_all(backend, _turn(), make_job()))
        await _until(lambda: engine.added)
        await asyncio.wait_for(backend.close(), 5)
        with pytest.raises(EngineError, match="has closed its engine"):
            await task
        assert not engine.is_closed
        engine.gate.release(10)

    asyncio.run(run())


def test_an_engine_that_was_never_started_is_closed(stepped_script, char_reader):
    engine = stepped_script(_say)
    asyncio.run(EngineBackend(engine, char_reader).close())
    assert engine.is_closed


def test_an_engine_that_fails_to_close_does_not_hold_the_server(stepped_script, char_reader):
    engine = stepped_script(_say)

    def close():
        raise OSError("the driver is gone")

    engine.close = close

    async def run():
        backend = EngineBackend(engine, char_reader)
        await backend.start()
        await asyncio.wait_for(backend.close(), 10)

    asyncio.run(run())


def test_a_server_that_dies_without_closing_its_engine_does_not_leave_it_stepping(
    make_job, stepped_script, char_reader
):
    engine = stepped_script(lambda request: "x" * 40)

    async def run():
        backend = EngineBackend(engine, char_reader, pause_s=0.0)
        await backend.start()
        await anext(backend.sample(_turn(), make_job()))
        return backend

    backend = asyncio.run(run())
    deadline = time.monotonic() + 10
    while engine.num_open and time.monotonic() < deadline:
        time.sleep(0.002)
    assert engine.num_open == 0
    backend._commands.put(None)
    backend._thread.join(10)
    assert engine.is_closed


def test_clients_that_come_and_go_at_random_leave_nothing_behind(make_job, stepped_script, char_reader):
    import random

    rng = random.Random(3)
    engine = stepped_script(lambda request: "x" * (1 + request.seed % 30))

    async def scenario(backend):
        tasks = []
        for number in range(200):
            tasks.append(asyncio.create_task(_all(backend, _turn(number), make_job(wants_text=number % 2 == 0))))
            if number % 3 == 0:
                await asyncio.sleep(0.001)
            if rng.random() < 0.5:
                rng.choice(tasks).cancel()
        await asyncio.wait(tasks)
        num_done = sum(not task.cancelled() for task in tasks)
        assert all(task.result()[-1].ended for task in tasks if not task.cancelled())
        assert 0 < num_done < 200
        await _all(backend, _turn(0), make_job())
        assert (backend.num_open, engine.num_open, backend._sampled) == (0, 0, {})

    _run(scenario, engine, char_reader)
