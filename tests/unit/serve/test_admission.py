from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from agon.errors import ConfigError
from agon.serve.admission import Admission, BusyError, ClosingError


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Guests:
    """Tasks that hold a place until they are let go; `order` is that in which they came in."""

    def __init__(self, admission):
        self.admission = admission
        self.order = []
        self._doors = {}
        self.tasks = {}

    def send(self, name, client="c", weight=1):
        self._doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name, client, weight))

    async def _stay(self, name, client, weight):
        async with self.admission.admit(client, weight):
            self.order.append(name)
            await self._doors[name].wait()

    async def leave(self, name):
        self._doors[name].set()
        await self.tasks[name]
        await _settle()


async def _settle(num_rounds=5):
    for _ in range(num_rounds):
        await asyncio.sleep(0)


@asynccontextmanager
async def _guests(max_running=1, max_queue=10, clock=None):
    guests = Guests(Admission(max_running=max_running, max_queue=max_queue, **({"clock": clock} if clock else {})))
    try:
        yield guests
    finally:
        for task in guests.tasks.values():
            task.cancel()
        await asyncio.gather(*guests.tasks.values(), return_exceptions=True)
        assert (guests.admission.num_running, guests.admission.num_waiting) == (0, 0)


def _run(scenario, **options):
    async def run():
        async with _guests(**options) as guests:
            await scenario(guests)

    asyncio.run(run())


def test_no_more_run_than_may_and_a_place_that_is_left_goes_to_the_next():
    async def scenario(guests):
        for name in "abcd":
            guests.send(name)
        await _settle()
        assert guests.order == ["a", "b"]
        assert (guests.admission.num_running, guests.admission.num_waiting) == (2, 2)
        await guests.leave("b")
        assert guests.order == ["a", "b", "c"]

    _run(scenario, max_running=2)


def test_clients_take_turns_however_much_one_of_them_asks():
    async def scenario(guests):
        guests.send("first", "greedy")
        for number in range(4):
            guests.send(f"greedy{number}", "greedy")
        await _settle()
        guests.send("x0", "x")
        guests.send("y0", "y")
        guests.send("x1", "x")
        await _settle()
        while len(guests.order) < 8:
            await guests.leave(guests.order[-1])
        assert guests.order == ["first", "greedy0", "x0", "y0", "greedy1", "x1", "greedy2", "greedy3"]

    _run(scenario)


def test_a_request_of_several_matches_waits_for_all_its_room_and_is_not_overtaken():
    async def scenario(guests):
        for name in "abc":
            guests.send(name)
        guests.send("wide", "w", weight=3)
        guests.send("late", "l")
        await _settle()
        assert guests.order == ["a", "b", "c"]
        await guests.leave("a")
        # There is room for "late" all the time.
        assert guests.order == ["a", "b", "c"]
        await guests.leave("b")
        assert guests.order == ["a", "b", "c", "wide"]
        assert guests.admission.num_running == 4
        await guests.leave("c")
        assert guests.order == ["a", "b", "c", "wide", "late"]

    _run(scenario, max_running=4)


def test_who_wants_more_than_there_is_room_for_is_told_that_waiting_will_not_help():
    async def scenario(guests):
        guests.send("wide", weight=5)
        with pytest.raises(ConfigError, match="at most 4"):
            await guests.tasks["wide"]

    _run(scenario, max_running=4)


def test_a_full_queue_refuses_with_the_time_until_what_waits_has_begun():
    clock = Clock()

    async def scenario(guests):
        guests.send("a")
        await _settle()
        clock.now = 40.0
        await guests.leave("a")  # the first of all: 40 s is the mean
        guests.send("b")
        guests.send("c", weight=2)
        guests.send("d", weight=2)
        guests.send("e")
        await _settle()
        assert guests.order == ["a", "b"]
        guests.send("f")
        # 5 matches wait, and this would be one more: 6 x 40 s over 2 places.
        with pytest.raises(BusyError, match="1 matches run and 3 requests wait") as refused:
            await guests.tasks["f"]
        assert refused.value.retry_after_s == pytest.approx(6 * 40 / 2)
        # One of the newest 10 s counts a tenth: .9 x 40 + .1 x 10.
        clock.now = 50.0
        await guests.leave("b")
        assert guests.admission.retry_after_s() == pytest.approx((3 + 1) * 37.0 / 2)

    _run(scenario, max_running=2, max_queue=3, clock=clock)


def test_without_a_queue_a_place_is_had_at_once_or_not():
    async def scenario(guests):
        guests.send("a")
        guests.send("b")
        with pytest.raises(BusyError):
            await guests.tasks["b"]
        await guests.leave("a")
        guests.send("c")
        await _settle()
        assert guests.order == ["a", "c"]

    _run(scenario, max_queue=0)


def test_in_a_full_queue_the_greediest_client_gives_way_to_one_with_less():
    async def scenario(guests):
        guests.send("running", "greedy")
        for number in range(3):
            guests.send(f"greedy{number}", "greedy")
        await _settle()
        guests.send("modest", "m")
        with pytest.raises(BusyError):
            await guests.tasks["greedy2"]
        # Two against one: nobody has more than it would have after giving way.
        guests.send("modest1", "m")
        with pytest.raises(BusyError):
            await guests.tasks["modest1"]
        guests.send("third", "t")
        with pytest.raises(BusyError):
            await guests.tasks["greedy1"]
        await guests.leave("running")
        await guests.leave("greedy0")
        await guests.leave("modest")
        assert guests.order == ["running", "greedy0", "modest", "third"]

    _run(scenario, max_queue=3)


def test_who_gives_up_waiting_leaves_the_queue():
    async def scenario(guests):
        for name in "abc":
            guests.send(name)
        await _settle()
        guests.tasks["b"].cancel()
        await _settle()
        assert guests.admission.num_waiting == 1
        await guests.leave("a")
        assert guests.order == ["a", "c"]

    _run(scenario)


def test_a_wide_one_that_gives_up_lets_those_behind_it_in():
    async def scenario(guests):
        guests.send("a")
        guests.send("wide", "w", weight=2)
        guests.send("b", "b")
        await _settle()
        assert guests.order == ["a"]
        guests.tasks["wide"].cancel()
        await _settle()
        assert guests.order == ["a", "b"]

    _run(scenario, max_running=2)


@pytest.mark.parametrize("cancels_first", [True, False])
def test_a_place_given_to_one_who_leaves_at_that_moment_is_not_lost(cancels_first):
    async def scenario(guests):
        for name in "abc":
            guests.send(name)
        await _settle()
        # Both happen before "b" runs again.
        if cancels_first:
            guests.tasks["b"].cancel()
            guests._doors["a"].set()
            await _settle()
        else:
            guests._doors["a"].set()
            await asyncio.sleep(0)
            guests.tasks["b"].cancel()
            await _settle()
        await _settle()
        assert guests.order[-1] == "c"
        assert guests.admission.num_running == 1

    _run(scenario)


def test_an_error_inside_gives_the_place_back_and_says_nothing_of_how_long_matches_take():
    clock = Clock()

    async def run():
        admission = Admission(max_running=1, max_queue=0, clock=clock)
        before = admission.retry_after_s()

        async def fail():
            async with admission.admit("c"):
                clock.now += 1_000
                raise OSError("lost")

        with pytest.raises(OSError, match="lost"):
            await fail()
        assert admission.num_running == 0
        assert admission.retry_after_s() == before
        async with admission.admit("c"):
            assert admission.num_running == 1

    asyncio.run(run())


def test_draining_refuses_what_waits_and_what_comes_and_waits_for_what_runs():
    async def scenario(guests):
        for name in "ab":
            guests.send(name)
        await _settle()
        drained = [asyncio.create_task(guests.admission.drain()) for _ in range(2)]
        await _settle()
        with pytest.raises(ClosingError):
            await guests.tasks["b"]
        guests.send("c")
        with pytest.raises(ClosingError):
            await guests.tasks["c"]
        assert not any(task.done() for task in drained)
        drained[0].cancel()
        await guests.leave("a")
        await asyncio.wait_for(drained[1], 1)
        await guests.admission.drain()

    _run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_played_twice_in_a_crowd_that_comes_and_goes(seed):
    rng = random.Random(seed)

    async def run():
        admission = Admission(max_running=5, max_queue=20)
        most = 0
        seen = {"played": 0, "refused": 0, "left": 0}

        async def visit(client):
            nonlocal most
            weight = rng.randint(1, 5)
            try:
                async with admission.admit(client, weight):
                    most = max(most, admission.num_running)
                    await _settle(rng.randint(1, 30))
                seen["played"] += 1
            except BusyError:
                seen["refused"] += 1
            except asyncio.CancelledError:
                seen["left"] += 1

        tasks = []
        for _ in range(200):
            tasks.append(asyncio.create_task(visit(rng.choice("wxyz"))))
            await _settle(rng.randint(0, 4))
            if rng.random() < 0.3:
                rng.choice(tasks).cancel()
        await asyncio.wait(tasks)
        assert sum(seen.values()) + sum(task.cancelled() for task in tasks) == 200
        assert min(seen["played"], seen["refused"], seen["left"]) > 0
        assert most <= 5
        assert (admission.num_running, admission.num_waiting) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize(("max_running", "max_queue"), [(0, 5), (1, -1)])
def test_bounds_that_let_nobody_in_are_refused(max_running, max_queue):
    with pytest.raises(ConfigError, match=f"max_running is {max_running} and max_queue {max_queue}"):
        Admission(max_running=max_running, max_queue=max_queue)
