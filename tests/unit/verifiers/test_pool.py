import os
import sys
import threading
import time

import pytest

from agon.verifiers.pool import WorkerPool

# A stand-in for the checking program that starts at once: the gold is how long to take, the answer what to do.
FAKE = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    gold, answer = json.loads(line)
    time.sleep(float(gold))
    if answer == "die":
        os._exit(7)
    print(json.dumps({"outcome": "correct", "reason": answer}), flush=True)
"""


@pytest.fixture
def make_pool():
    made = []

    def make(program=FAKE, *, timeout_s=2.0, workers=2):
        pool = WorkerPool([sys.executable, "-c", program], timeout_s=timeout_s, workers=workers)
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.close()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_replies_come_in_the_order_of_the_pairs(make_pool):
    pairs = [(str(0.1 - 0.01 * n), f"answer {n}") for n in range(10)]
    assert [reply.reason for reply in make_pool().ask(pairs)] == [f"answer {n}" for n in range(10)]


def test_nothing_starts_before_it_is_needed(make_pool):
    assert all(worker._process is None for worker in make_pool()._workers)


def test_waiting_in_the_queue_is_not_counted(make_pool):
    # 20 x 0.05 s one after another take longer than the limit of 0.5 s that each one has
    replies = make_pool(timeout_s=0.5, workers=1).ask([("0.05", "easy")] * 20)
    assert {reply.outcome for reply in replies} == {"correct"}
    assert sum(reply.seconds for reply in replies) > 0.5


def test_a_hanging_check_is_killed_in_time_and_its_worker_replaced(make_pool):
    pool = make_pool(timeout_s=0.5)
    start = time.monotonic()
    replies = pool.ask([("60", "hang"), *[("0", "good")] * 15])
    assert time.monotonic() - start < 20
    assert [reply.outcome for reply in replies] == ["timeout", *["correct"] * 15]
    assert replies[0].reason == "took longer than 0.5 s"
    assert [reply.outcome for reply in pool.ask([("0", "good")] * 4)] == ["correct"] * 4


def test_the_next_process_starts_when_one_is_killed_and_not_when_it_is_needed(make_pool):
    pool = make_pool(timeout_s=0.3, workers=1)
    assert pool.ask([("60", "hang")])[0].outcome == "timeout"
    process = pool._workers[0]._process
    assert process is not None
    assert is_alive(process.pid)
    assert pool.ask([("0", "good")])[0].outcome == "correct"
    assert pool._workers[0]._process is process


def test_each_message_may_have_its_own_limit(make_pool):
    replies = make_pool(workers=1).ask([("0.6", "slow"), ("0.6", "slow")], timeouts_s=[0.2, 2.0])
    assert [reply.outcome for reply in replies] == ["timeout", "correct"]


def test_a_process_that_dies_is_an_error_and_is_replaced(make_pool):
    replies = make_pool(workers=1).ask([("0", "good"), ("0", "die"), ("0", "good")])
    assert [reply.outcome for reply in replies] == ["correct", "error", "correct"]
    assert replies[1].reason == "the checking process ended (exit status 7)"


def test_a_check_whose_process_is_killed_from_outside_is_made_once_more(make_pool, tmp_path):
    # Killed at the first question alone, as by a system that has run out of memory for a moment.
    mark = tmp_path / "killed"
    first = f"if not os.path.exists({str(mark)!r}): open({str(mark)!r}, 'w'); os.kill(os.getpid(), 9)"
    replies = make_pool(FAKE.replace("os._exit(7)", first), workers=1).ask([("0", "die"), ("0", "good")])
    assert [reply[:2] for reply in replies] == [("correct", "die"), ("correct", "good")]


def test_a_check_whose_process_is_always_killed_is_an_error(make_pool):
    replies = make_pool(FAKE.replace("os._exit(7)", "os.kill(os.getpid(), 9)"), workers=1).ask(
        [("0", "die"), ("0", "good")]
    )
    assert [reply[:2] for reply in replies] == [
        ("error", "the checking process ended (exit status -9)"),
        ("correct", "good"),
    ]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "the checking process did not start (exit status 3)"),
        ('print(\'{"failed": "no sympy"}\')', "the checking process did not start: no sympy"),
        ("print('Traceback!')", "the checking process did not start: it wrote 'Traceback!'"),
        ("print('[1]')", "the checking process did not start: it wrote '[1]'"),
        (
            "print('x' * 2_000_000, flush=True)\nwhile True: pass",
            "the checking process did not start (no line of at most 1,000,000 bytes came)",
        ),
    ],
)
def test_a_program_that_cannot_start_is_an_error_and_not_an_exception(make_pool, program, reason):
    assert [reply[:2] for reply in make_pool(program).ask([("0", "x")])] == [("error", reason)]


@pytest.mark.parametrize("line", ["x", "[1]", "{}", '{"outcome": 1, "reason": "x"}'])
def test_a_process_that_writes_no_reply_is_an_error_and_is_replaced(make_pool, line):
    program = FAKE.replace("os._exit(7)", f"print({line!r}, flush=True)\n        time.sleep(60)")
    replies = make_pool(program, workers=1).ask([("0", "die"), ("0", "good")])
    assert [reply.outcome for reply in replies] == ["error", "correct"]
    assert replies[0].reason == f"the checking process wrote {line!r}, which is no reply"


def test_processes_that_cannot_start_are_tried_three_times_in_all(make_pool, tmp_path):
    pool = make_pool(f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\nraise SystemExit(3)", workers=1)
    assert (pool.ask([("0", "x")] * 2)[1].outcome, pool.refusal) == ("error", "")
    replies = pool.ask([("0", "x")] * 20)
    assert {reply[:2] for reply in replies} == {("error", "the checking process did not start (exit status 3)")}
    assert pool.refusal == "the checking process did not start (exit status 3)"
    assert (tmp_path / "starts").read_text() == "xxx"


def test_a_start_that_succeeds_forgives_those_that_failed(make_pool, tmp_path):
    counter = f"import pathlib\npath = pathlib.Path({str(tmp_path / 'starts')!r})\npath.open('a').write('x')\n"
    program = f"{counter}if len(path.read_text()) in (1, 2, 4, 5): raise SystemExit(3)\n{FAKE}"
    pool = make_pool(program, workers=1)
    replies = pool.ask([("0", "a"), ("0", "b"), ("0", "die"), ("0", "c"), ("0", "d"), ("0", "e")])
    assert [reply.outcome for reply in replies] == ["error"] * 5 + ["correct"]
    assert pool.refusal == ""


def test_a_program_that_is_not_there_is_refused(tmp_path):
    pool = WorkerPool([str(tmp_path / "missing")], timeout_s=1.0, workers=1)
    assert {reply.outcome for reply in pool.ask([("0", "x")] * 3)} == {"error"}
    assert "missing" in pool.refusal
    pool.close()


def test_many_threads_share_the_workers(make_pool):
    pool = make_pool()
    replies = {}
    threads = [
        threading.Thread(target=lambda n=n: replies.update({n: pool.ask([("0.01", str(n))])[0].reason}))
        for n in range(64)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {n: str(n) for n in range(64)}


def test_closing_leaves_no_process_even_while_a_check_hangs(make_pool):
    pool = make_pool(timeout_s=60.0)
    pool.ask([("0", "good")] * 4)
    replies = []
    thread = threading.Thread(target=lambda: replies.extend(pool.ask([("60", "hang")])))
    thread.start()
    time.sleep(0.3)
    pids = [worker._process.pid for worker in pool._workers if worker._process]
    assert any(is_alive(pid) for pid in pids)
    pool.close()
    thread.join(5)
    assert not thread.is_alive()
    assert replies[0].outcome == "error"
    assert not any(is_alive(pid) for pid in pids)
    pool.close()


def test_a_pool_that_is_forgotten_ends_its_processes():
    pool = WorkerPool([sys.executable, "-c", FAKE], timeout_s=2.0, workers=1)
    pool.ask([("0", "good")])
    process = pool._workers[0]._process
    del pool
    assert process.wait(10) is not None
