from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from agon.ablation.cells import count_steps
from agon.ablation.jobs import run_jobs
from agon.ablation.launch import cuda_devices


def _ignore(names):
    pass


@pytest.fixture
def heeds_interrupts():
    """SIGINT raises, also where the tests themselves were started to ignore it (in the background of a shell)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_every_job_runs_with_one_thread_and_its_output_is_kept(tmp_path, make_job):
    told = []
    jobs = [make_job(name, 3) for name in ("one", "two", "three")]
    assert run_jobs(jobs, num_parallel=2, on_tick=told.append, keep_going=False) == []
    assert [count_steps(tmp_path / name) for name in ("one", "two", "three")] == [3, 3, 3]
    assert (tmp_path / "two.log").read_text() == "threads 1\n"
    assert {name for names in told for name in names} == {"one", "two", "three"}


LEAKY = """
import logging, os, sys, warnings

def main(arguments):
    logging.getLogger("library").addHandler(logging.StreamHandler())
    secret = os.environ["WANDB_API_KEY"]
    print("begin", secret)
    print("half a line ", end="", flush=True)
    sys.stderr.write(secret[:9]); sys.stderr.write(secret[9:] + "\\n")
    logging.getLogger("library").warning("refused %s", secret)
    warnings.warn("of " + secret)
    raise RuntimeError("GET https://me:password1@host/x: {'Authorization': 'Bearer abcdefgh1234'}")
"""


def test_no_secret_that_a_job_prints_stays_in_its_log_nor_in_the_reason_of_its_failure(tmp_path, make_job, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    (tmp_path / "modules" / "leaky.py").write_text(LEAKY)
    (failure,) = run_jobs(
        [replace(make_job("one", 1), module="leaky")], num_parallel=1, on_tick=_ignore, keep_going=True
    )
    log = (tmp_path / "one.log").read_text()
    for secret in ("0123456789abcdef", "password1", "abcdefgh1234"):
        assert secret not in log
        assert secret not in str(failure)
    for line in (
        "begin [redacted]",
        "half a line",
        "refused [redacted]",
        "of [redacted]",
        "RuntimeError: GET https://",
    ):
        assert line in log
    assert failure.exit_code == 1


def test_a_log_that_is_a_link_is_replaced_and_not_written_through(tmp_path, make_job):
    (tmp_path / "precious").write_text("stays")
    (tmp_path / "one.log").symlink_to(tmp_path / "precious")
    assert run_jobs([make_job("one", 1)], num_parallel=1, on_tick=_ignore, keep_going=True) == []
    assert (tmp_path / "precious").read_text() == "stays"
    assert (tmp_path / "one.log").read_text() == "threads 1\n"


def test_no_more_jobs_run_at_once_than_asked_for(tmp_path, make_job):
    seen = []

    def look(names):
        assert len(names) == 1
        seen.append({name: count_steps(tmp_path / name) for name in ("one", "two")})

    run_jobs([make_job("one", 5), make_job("two", 5)], num_parallel=1, on_tick=look, keep_going=False)
    # one after the other: the second has no steps before the first has all five
    assert all(steps["two"] == 0 or steps["one"] == 5 for steps in seen)


@pytest.mark.parametrize("make_job", ["program"], indirect=True)
def test_jobs_are_spread_over_the_devices(tmp_path, make_job):
    # Two devices, three at once: the third goes to the first device, the fourth to whichever is freer by then.
    jobs = [make_job("one", 40), make_job("two", 1), make_job("three", 40), make_job("four", 1)]
    run_jobs(jobs, num_parallel=3, on_tick=_ignore, keep_going=True, devices=["0", "GPU-7"])
    seen = {job.name: (tmp_path / job.name / "device").read_text() for job in jobs}
    assert seen == {"one": "0", "two": "GPU-7", "three": "0", "four": "GPU-7"}


@pytest.mark.parametrize("make_job", ["program"], indirect=True)
def test_without_devices_a_job_sees_what_its_parent_sees(tmp_path, make_job, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    run_jobs([make_job("one", 1)], num_parallel=1, on_tick=_ignore, keep_going=True)
    assert (tmp_path / "one" / "device").read_text() == "3,5"


@pytest.mark.parametrize(
    ("named", "count", "devices"),
    [(None, 2, ["0", "1"]), ("3, 5", 2, ["3", "5"]), ("3,5", 0, []), ("", 0, []), (None, 0, [])],
)
def test_devices_are_named_as_the_environment_names_them(monkeypatch, named, count, devices):
    if named is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    assert cuda_devices() == devices


def test_a_failure_stops_the_others_after_they_have_saved(tmp_path, make_job):
    jobs = [make_job("one", 4, "one"), make_job("slow", 1000), make_job("never", 1)]
    (failure,) = run_jobs(jobs, num_parallel=2, on_tick=_ignore, keep_going=False)
    assert str(failure) == f"cell one: disk is full (log: {tmp_path / 'one.log'})"
    assert failure.exit_code == 1
    assert (tmp_path / "slow" / "saved").read_text() == "1"
    assert not (tmp_path / "never").exists()


def test_a_failure_does_not_stop_the_others_where_they_are_to_go_on(tmp_path, make_job):
    jobs = [make_job("one", 1, "one"), make_job("two", 2), make_job("killed", 2, "killed"), make_job("four", 2)]
    failures = run_jobs(jobs, num_parallel=1, on_tick=_ignore, keep_going=True)
    assert [failure.name for failure in failures] == ["one", "killed"]
    # ended by SIGKILL, number 9, and said nothing
    assert failures[1].reason == "ended by signal 9"
    assert failures[1].exit_code == 1
    assert [count_steps(tmp_path / name) for name in ("two", "four")] == [2, 2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_is_passed_on_once_and_waits_for_the_jobs_to_save(tmp_path, make_job, number):
    jobs = [make_job(name, 1000) for name in ("one", "two", "three")]

    def interrupt():
        while not all(count_steps(tmp_path / name) for name in ("one", "two")):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, num_parallel=2, on_tick=_ignore, keep_going=True)
    assert [(tmp_path / name / "saved").read_text() for name in ("one", "two")] == ["1", "1"]
    assert not (tmp_path / "three").exists()
