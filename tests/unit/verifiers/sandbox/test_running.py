import os
import time

import pytest

from agon.verifiers.sandbox.records import Limits
from agon.verifiers.sandbox.running import Running


@pytest.fixture
def start(tmp_path):
    made, writers = [], []

    def begin(limits, *, waited_s, others_ran_s=0.0):
        """A stand-in for a program that says nothing: what the kernel tells of it is in two files."""
        (tmp_path / "schedstat").write_text(f"{10**9} {int(waited_s * 1e9)} 7")
        ticks = os.sysconf("SC_CLK_TCK")
        # the first thread ran for 1 s, outside of the kernel
        times = [str(int(ticks * seconds)) for seconds in (1.0, others_ran_s)]
        fields = ["S", *(str(number) for number in range(4, 14)), *times, *(str(number) for number in range(16, 20))]
        (tmp_path / "stat").write_text(f"1 (a (strange) name) {' '.join(fields)}")
        end, writer = os.pipe()
        writers.append(writer)
        made.append(Running(limits, keeps_stdout=True))
        files = [os.open(tmp_path / name, os.O_RDONLY) for name in ("schedstat", "stat")]
        made[-1].started([end, *files])
        return made[-1]

    yield begin
    for running in made:
        running.close()
    for writer in writers:
        os.close(writer)


def seconds_until_stopped(running):
    begun = time.monotonic()
    # the other ends of the pipes are closed, so nothing but the clock can end it
    assert running.pump(reply_size=None) == "time"
    return time.monotonic() - begun


LIMITS = Limits(timeout_s=0.3, memory_mb=1, output_mb=1)


def test_time_without_a_core_is_given_again(start):
    # 0.3, and 0.3 + 0.4
    assert 0.3 <= seconds_until_stopped(start(LIMITS, waited_s=0.0)) < 0.7
    assert 0.7 <= seconds_until_stopped(start(LIMITS, waited_s=0.4)) < 1.3


def test_at_most_twice_the_limit_is_given_again(start):
    # 0.3 + 2 x 0.3
    assert 0.9 <= seconds_until_stopped(start(LIMITS, waited_s=100.0)) < 1.5


def test_threads_that_keep_each_other_waiting_get_nothing(start):
    # threads that have ended count as well; 0.3, and 0.3 + (0.9 - 0.5)
    assert seconds_until_stopped(start(LIMITS, waited_s=100.0, others_ran_s=100.0)) < 0.7
    assert 0.7 <= seconds_until_stopped(start(LIMITS, waited_s=0.9, others_ran_s=0.5)) < 1.3


def test_where_nothing_is_told_nothing_is_given(start):
    running = start(LIMITS, waited_s=100.0)
    running._statistics = -1
    assert seconds_until_stopped(running) < 0.7
