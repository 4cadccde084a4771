from __future__ import annotations

from types import SimpleNamespace

import pytest

from agon.config import AlarmSettings
from agon.errors import ConfigError, DivergedError, EngineError, StalledError, VerifierError
from agon.methods.registry import method_named
from agon.runs import RunFolder, read_alarms
from agon.train.alarms import RunAlarm
from agon.train.bell import Bell, halted

CUT = {"draft/tokens_mean": 9.0, "draft/truncated_share": 1.0, "draft/accuracy": 0.0}
MUCH = {**CUT, "draft/truncated_share": 0.6}


@pytest.fixture
def run(tmp_path):
    with RunFolder.create(tmp_path / "run", settings={}) as folder:
        yield folder


def _bell(run, said=None, *, drift=None, **own):
    say = (lambda line: None) if said is None else said.append
    return Bell(AlarmSettings(**own), run, method_named("grpo"), say=say, drift=drift)


def _see(bell, steps, numbers, *, is_last=False):
    return [bell.see({"step": step, **numbers}, [], is_last=is_last) for step in steps]


def test_a_warning_is_said_once_kept_and_stops_nothing(run):
    said: list[str] = []
    assert _see(_bell(run, said), range(30), MUCH) == [None] * 30
    assert len(said) == 1
    assert said[0].startswith(
        "warning: truncated, A as drafter since step 0: draft/truncated_share is 0.6 (limit 0.5): "
    )
    assert [(row["name"], row["step"], row["since"]) for row in read_alarms(run.path)] == [("truncated", 4, 0)]


def test_an_alarm_that_stops_is_returned_kept_and_left_to_the_error_to_say(run):
    said: list[str] = []
    found = _see(_bell(run, said), range(5), CUT)
    assert found[:4] == [None] * 4
    assert found[4].name == "all-truncated"
    assert said == []
    assert [(row["name"], row["mode"]) for row in read_alarms(run.path)] == [("all-truncated", "stop")]


def test_after_the_last_step_there_is_nothing_to_stop(run):
    said: list[str] = []
    bell = _bell(run, said)
    _see(bell, range(4), CUT)
    assert _see(bell, [4], CUT, is_last=True) == [None]
    assert "all-truncated" in said[0]


def test_a_resumed_run_remembers_and_says_nothing_twice(run):
    rows = [{"step": step, **MUCH} for step in range(7)]
    _see(_bell(run), range(7), MUCH)
    said: list[str] = []
    bell = _bell(run, said)
    bell.remember(rows)
    _see(bell, range(7, 12), MUCH)
    assert said == []
    assert len(read_alarms(run.path)) == 1
    # A run that was stopped before the fifth step sounds in it as if it had gone on.
    run.rewind(0)
    bell = _bell(run, said)
    bell.remember(rows[:4])
    _see(bell, [4], MUCH)
    assert [(row["step"], row["since"]) for row in read_alarms(run.path)] == [(4, 0)]


def test_a_run_resumed_unchanged_after_a_stop_stops_again(run):
    _see(_bell(run), range(5), CUT)
    bell = _bell(run)
    bell.remember([{"step": step, **CUT} for step in range(5)])
    (found,) = _see(bell, [5], CUT)
    assert (found.name, found.since) == ("all-truncated", 0)
    assert len(read_alarms(run.path)) == 1
    assert _see(bell, [6], {**CUT, "draft/truncated_share": 0.1}) == [None]


def test_lines_that_are_no_alarms_are_passed_over(run):
    (run.path / "alarms.jsonl").write_text(
        '{"step": 1}\n{"step": 2, "name": "truncated", "about": [], "since": null}\n'
    )
    said: list[str] = []
    bell = _bell(run, said)
    bell.remember([])
    _see(bell, range(5), MUCH)
    assert len(said) == 1


def test_an_alarm_switched_on_later_is_said_of_what_was_before(run):
    _see(_bell(run, truncated="off"), range(7), MUCH)
    assert read_alarms(run.path) == []
    said: list[str] = []
    bell = _bell(run, said)
    bell.remember([{"step": step, **MUCH} for step in range(7)])
    _see(bell, [7], MUCH)
    assert len(said) == 1
    assert "since step 0" in said[0]


def test_the_distance_from_the_base_is_said_once_a_run_and_can_stop_it(run):
    def see(step, matches):
        return [RunAlarm("kl-explosion", step, since=step, about="A", mode="warn", message="far")]

    said: list[str] = []
    bell = _bell(run, said, drift=SimpleNamespace(see=see))
    good = {"draft/tokens_mean": 9.0, "draft/truncated_share": 0.0}
    assert _see(bell, range(3), good) == [None] * 3
    assert said == ["warning: kl-explosion, A since step 0: far"]
    again = _bell(run, said, drift=SimpleNamespace(see=see))
    again.remember([{"step": 0, **good}])
    _see(again, [1], good)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("error", "name", "is_broken"),
    [
        (DivergedError("the loss is nan"), "diverged", True),
        (EngineError("they differ"), "engine", False),
        (VerifierError("9 of 9"), "verifier", False),
    ],
)
def test_a_failure_of_the_numbers_or_of_a_checker_is_kept_with_its_step(run, error, name, is_broken):
    bell = _bell(run)
    _see(bell, range(3), {"draft/tokens_mean": 9.0})
    bell.fail(error)
    (row,) = read_alarms(run.path)
    assert (row["name"], row["step"], row["message"], row["is_broken"]) == (name, 3, str(error), is_broken)


def test_other_failures_are_no_alarms(run):
    _bell(run).fail(ConfigError("no"))
    assert read_alarms(run.path) == []


@pytest.mark.parametrize(("is_broken", "kind", "code"), [(True, DivergedError, 3), (False, StalledError, 1)])
def test_the_error_says_where_it_was_saved_and_how_to_go_on(tmp_path, is_broken, kind, code):
    alarm = RunAlarm("format-lost", 9, since=5, about="A as drafter", mode="stop", message="why", is_broken=is_broken)
    error = halted(alarm, tmp_path, completed_steps=10)
    assert type(error) is kind
    assert error.exit_code == code
    assert str(error) == (
        "format-lost, A as drafter since step 5: why; stopped after step 10, saved; to go on all the same: "
        f"agon train --resume --out {tmp_path} --set alarms.format_lost=warn"
    )
