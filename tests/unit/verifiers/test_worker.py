import signal
import sys
import time

import pytest

from agon.verifiers.pool import WorkerPool

# Its own alarm is set to one second, without the margin that lets the pool come first.
PROGRAM = """
import sys
import agon.verifiers.worker as worker
worker._ALARM_MARGIN_S = 0
sys.argv = ["worker", "2048", "1"]
worker.main()
"""


@pytest.fixture
def pool():
    made = WorkerPool([sys.executable, "-c", PROGRAM], timeout_s=60.0, workers=1)
    yield made
    made.close()


def test_a_process_that_waits_longer_than_a_check_may_take_goes_on(pool):
    assert pool.ask([("x+1", "1+x")])[0].outcome == "correct"
    process = pool._workers[0]._process
    time.sleep(1.5)
    assert process.poll() is None


def test_a_check_that_hangs_ends_its_process_though_nobody_kills_it(pool):
    (reply,) = pool.ask([("12", r"|9^{9^{9^9}} - 5|")])
    assert (reply.outcome, reply.reason) == (
        "error",
        f"the checking process ended (exit status {-signal.SIGALRM})",
    )


def test_too_little_memory_to_start_is_said_with_its_remedy():
    made = WorkerPool([sys.executable, "-m", "agon.verifiers.worker", "60", "1"], timeout_s=60.0, workers=1)
    try:
        (reply,) = made.ask([("x+1", "1+x")])
    finally:
        made.close()
    reason = "the checking process did not start: it needs more than 60 MB: raise verifier.memory_mb"
    assert reply[:2] == ("error", reason)
