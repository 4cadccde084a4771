from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agon.serve.asgi import ClientGone
from agon.serve.connection import Connection


def receive_after(seconds, kind="http.disconnect"):
    async def receive():
        await asyncio.sleep(seconds)
        return {"type": kind}

    return receive


async def never():
    await asyncio.Event().wait()


def test_a_block_ends_when_the_client_leaves_and_cleans_up():
    cleaned = []

    async def main():
        try:
            async with Connection(receive_after(0.01)):
                try:
                    await never()
                finally:
                    cleaned.append("block")
        finally:
            # The task itself is not cancelled: it can wait again.
            await asyncio.sleep(0)
            cleaned.append("task")

    with pytest.raises(ClientGone):
        asyncio.run(main())
    assert cleaned == ["block", "task"]


def test_a_block_that_ends_first_is_not_disturbed_by_a_client_that_leaves_later():
    async def main():
        async with Connection(receive_after(0.01)):
            pass
        await asyncio.sleep(0.03)
        return "undisturbed"

    assert asyncio.run(main()) == "undisturbed"


def test_what_still_comes_from_the_client_is_passed_over():
    messages = iter(["http.request", "http.request", "http.disconnect"])

    async def receive():
        return {"type": next(messages)}

    async def main():
        async with Connection(receive):
            await never()

    with pytest.raises(ClientGone):
        asyncio.run(main())
    assert next(messages, None) is None


def test_the_first_reason_to_give_up_is_raised():
    async def main():
        async with Connection(receive_after(10)) as connection:
            connection.give_up(ValueError("first"))
            connection.give_up(ValueError("second"))
            await never()

    with pytest.raises(ValueError, match="first"):
        asyncio.run(main())


def test_an_error_of_the_block_passes_through():
    async def main():
        async with Connection(receive_after(10)):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        asyncio.run(main())


def test_a_cancelled_task_stays_cancelled():
    async def inner():
        async with Connection(receive_after(10)):
            await never()

    async def main():
        task = asyncio.create_task(inner())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_deadline_around_the_block_is_told_from_a_client_that_left():
    async def main():
        async with asyncio.timeout(0.01), Connection(receive_after(10)):
            await never()

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_ticks_come_while_the_block_runs_and_not_after_it():
    ticks = []

    async def tick():
        ticks.append(1)

    async def main():
        async with Connection(receive_after(10), tick=tick, tick_s=0.01):
            while len(ticks) < 3:
                await asyncio.sleep(0.005)
        seen = len(ticks)
        await asyncio.sleep(0.03)
        return seen

    assert asyncio.run(main()) == len(ticks) == 3


def test_a_failing_tick_ends_the_block():
    async def tick():
        raise OSError("the pipe broke")

    async def main():
        async with Connection(receive_after(10), tick=tick, tick_s=0.01):
            await never()

    with pytest.raises(OSError, match="the pipe broke"):
        asyncio.run(main())


def test_a_block_that_has_ended_leaves_nothing_to_the_garbage_collector():
    async def main():
        async with Connection(receive_after(10)) as connection:
            await asyncio.sleep(0)
        left = weakref.ref(connection)
        del connection
        # The watcher takes its cancellation.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return left()

    gc.disable()
    try:
        assert asyncio.run(main()) is None
    finally:
        gc.enable()
