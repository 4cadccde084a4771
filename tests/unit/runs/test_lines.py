import math
from pathlib import Path

import pytest

from agon.errors import DivergedError, RunError
from agon.runs.lines import (
    append_line,
    check_metrics,
    read_lines,
    read_metrics,
    read_timings,
    truncate_metrics,
    truncate_timings,
)


def write_steps(path: Path, steps: range) -> None:
    for step in steps:
        append_line(path, {"step": step, "draft/accuracy": step / 3, "draft/entropy": None})


def test_lines_come_back_as_written(tmp_path):
    write_steps(tmp_path / "m.jsonl", range(3))
    assert read_lines(tmp_path / "m.jsonl")[1] == {"step": 1, "draft/accuracy": 1 / 3, "draft/entropy": None}


def test_a_half_written_last_line_is_not_read(tmp_path):
    path = tmp_path / "m.jsonl"
    write_steps(path, range(2))
    path.write_bytes(path.read_bytes() + b'{"step": 2, "dra')
    assert [row["step"] for row in read_lines(path)] == [0, 1]


def test_a_damaged_line_is_named_by_its_number(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 0}\n[1]\n')
    with pytest.raises(RunError, match=r"m\.jsonl, line 2 is not a JSON object"):
        read_lines(path)


def test_a_file_that_is_absent_has_no_lines(tmp_path):
    assert read_lines(tmp_path / "m.jsonl") == []


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("tail", [b"", b'{"step": 7, "draft/acc'])
def test_cut_and_continued_metrics_equal_those_of_a_run_that_never_stopped(tmp_path, first, tail):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    whole.mkdir()
    resumed.mkdir()
    write_steps(whole / "metrics.jsonl", range(first, first + 10))
    write_steps(resumed / "metrics.jsonl", range(first, first + 7))
    path = resumed / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + tail)
    truncate_metrics(resumed, completed_steps=4)
    write_steps(path, range(first + 4, first + 10))
    assert path.read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_metrics_that_lost_lines_are_refused(tmp_path):
    write_steps(tmp_path / "metrics.jsonl", range(3))
    with pytest.raises(RunError, match="has 3 lines, but the checkpoint was saved after 4 steps"):
        truncate_metrics(tmp_path, completed_steps=4)


def test_timings_may_be_fewer_than_steps(tmp_path):
    write_steps(tmp_path / "timings.jsonl", range(3))
    before = (tmp_path / "timings.jsonl").read_bytes()
    truncate_timings(tmp_path, completed_steps=4)
    assert (tmp_path / "timings.jsonl").read_bytes() == before


def test_a_step_without_timings_does_not_let_a_later_one_stay(tmp_path):
    write_steps(tmp_path / "timings.jsonl", [0, 1, 3, 4])  # the process was killed before it wrote the line of step 2
    truncate_timings(tmp_path, completed_steps=3)
    assert [row["step"] for row in read_lines(tmp_path / "timings.jsonl")] == [0, 1]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_stops_the_run(value):
    with pytest.raises(DivergedError, match=f"draft/loss is {value} at step 3"):
        check_metrics({"step": 3, "draft/loss": value})
    with pytest.raises(DivergedError, match=f"draft/importance_by_length is {value} at step 3"):
        check_metrics({"step": 3, "draft/importance_by_length": {"64": 1.0, "128": value}})


def test_an_unregistered_metric_and_a_line_without_step_are_refused():
    with pytest.raises(ValueError, match="did you mean 'draft/accuracy'"):
        check_metrics({"step": 0, "draft/accuray": 0.5})
    with pytest.raises(ValueError, match="needs its step"):
        check_metrics({"draft/accuracy": 0.5})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_ends_in_one_line(tmp_path):
    with pytest.raises(RunError, match="the disk is full"):
        append_line(Path("/dev/full"), {"step": 0})


def test_nothing_is_appended_through_a_link(tmp_path):
    (tmp_path / "precious").write_text("stays")
    (tmp_path / "m.jsonl").symlink_to(tmp_path / "precious")
    with pytest.raises(
        RunError, match=r"m\.jsonl: it is a link, and nothing is written through the links of a run folder"
    ):
        append_line(tmp_path / "m.jsonl", {"step": 0})
    assert (tmp_path / "precious").read_text() == "stays"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"step": 0, "loss": NaN}', "holds NaN"),
        ('{"step": 0, "loss": 1e999}', "holds 1e999, which is too large"),
        ('{"step": 0, "loss": ' + "9" * 400 + "}", "holds a number of 400 digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"loss": 1}', "names no step"),
        ('{"step": "0"}', "names no step"),
        ('{"step": true}', "names no step"),
    ],
)
def test_a_line_that_agon_would_not_have_written_is_named(tmp_path, line, reason):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n' + line + "\n")
    with pytest.raises(RunError, match=rf"metrics\.jsonl, line 2 .*{reason}"):
        read_metrics(tmp_path)


@pytest.mark.parametrize("value", ['"x"', "[1]", "{}"])
def test_a_timing_that_is_no_number_is_named(tmp_path, value):
    (tmp_path / "timings.jsonl").write_text('{"step": 0, "a": 1.5, "b": null}\n{"step": 1, "a": ' + value + "}\n")
    with pytest.raises(RunError, match=r"timings\.jsonl, line 2 holds what is no number: remove the line, or the file"):
        read_timings(tmp_path)
