"""A matrix of two arms and two seeds through the command line: planned, killed, resumed, compared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RECIPE = """
[adapter]
init = "standard"
[task]
wording = "symbols-v1"
max_train = 40
[rollout]
max_draft_tokens = 44
max_challenge_tokens = 44
max_summary_tokens = 40
[train]
steps = 2
problems_per_step = 2
group_size = 2
[evaluation]
max_test = 4
max_dev = 4
samples = 2
[matrix]
seeds = [0, 1]
base = ["single", "single-doubled-cap"]
one = ["single-a"]
pair = ["cascade-a-b", "cascade-b-a", "microscope"]
[[matrix.arms]]
name = "grpo"
title = "GRPO"
[[matrix.arms]]
name = "another-order"
method = "agon"
group = "init"
set = { "train.order_seed" = 9 }
"""
CELLS = [f"{arm}-s{seed}" for arm in ("grpo", "another-order") for seed in (0, 1)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def whole(agon, recipe, tmp_path_factory) -> Path:
    """The matrix, trained and measured to its end."""
    out = tmp_path_factory.mktemp("whole") / "small"
    assert agon("ablate", recipe, "--out", out, "--parallel", "2") == 0
    return out


@pytest.fixture(scope="module")
def killed(recipe, tmp_path_factory) -> Path:
    """A matrix whose process was killed as soon as one evaluation of a cell was there."""
    out = tmp_path_factory.mktemp("matrix") / "small"
    command = [sys.executable, "-m", "agon.cli.main", "ablate", str(recipe), "--out", str(out), "--parallel", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ))
    deadline = time.monotonic() + 120
    while not list(out.glob("cells/*/evaluations/*.json")):
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline, "no evaluation within 120 s"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return out


@pytest.fixture(scope="module")
def resumed(agon, recipe, killed) -> tuple[Path, dict[Path, int]]:
    """The killed matrix resumed to its end, and when the evaluations that it had then were written."""
    before = {path: path.stat().st_mtime_ns for path in killed.rglob("evaluations/*.json")}
    assert agon("ablate", recipe, "--out", killed, "--resume", "--parallel", "2") == 0
    return killed, before


def _json(path: Path):
    return json.loads(path.read_text())


def test_a_dry_run_states_every_cell_with_its_budget(agon, recipe, tmp_path, capsys):
    assert agon("ablate", recipe, "--out", tmp_path / "none", "--dry-run", "--json") == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["arm"], cell["seed"], cell["state"]) for cell in cells] == [
        (arm, seed, "waiting") for arm in ("grpo", "another-order") for seed in (0, 1)
    ]
    # 2N = 4 rollouts of each of 2 problems in 2 steps, at most 44 tokens each
    assert {(cell["rollouts_per_problem"], cell["rollouts"], cell["tokens_at_most"]) for cell in cells} == {
        (4, 16, 16 * 44)
    }
    assert cells[2]["method"] == "agon"
    assert cells[2]["run"] == "cells/another-order-s0"
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_killed_matrix_says_how_far_each_cell_is(agon, recipe, killed, capsys):
    assert agon("ablate", recipe, "--out", killed, "--dry-run", "--json") == 0
    states = {cell["run"]: cell["state"] for cell in json.loads(capsys.readouterr().out)["cells"]}
    measured = {str(path.parents[1].relative_to(killed)) for path in killed.glob("cells/*/evaluations/*.json")}
    assert measured
    # what has an evaluation has been trained
    assert {states[run] for run in measured} <= {"trained", "done"}


def _assert_whole(out: Path) -> None:
    assert sorted(path.name for path in (out / "cells").iterdir()) == sorted(CELLS)
    for name in CELLS:
        steps = [json.loads(line)["step"] for line in (out / "cells" / name / "metrics.jsonl").read_text().splitlines()]
        assert steps == [0, 1]
    found = {str(path.relative_to(out)) for path in out.rglob("evaluations/*.json")}
    assert found == {
        *(f"base/evaluations/{label}.json" for label in ("single", "single-doubled-cap")),
        *(f"cells/grpo-s{seed}/evaluations/single-a.json" for seed in (0, 1)),
        *(
            f"cells/another-order-s{seed}/evaluations/cascade-{direction}.json"
            for seed in (0, 1)
            for direction in ("a-b", "b-a")
        ),
    }
    assert sorted(path.parent.name for path in out.rglob("microscope.json")) == ["another-order-s0", "another-order-s1"]
    assert (out / "report.html").stat().st_size > 10_000


def test_every_cell_is_trained_and_measured_as_asked(whole):
    _assert_whole(whole)


# A matrix that lacks a cell or an evaluation is resumed below; tests/faults/ kills matrices anywhere.
@pytest.mark.slow
def test_a_killed_matrix_is_resumed_to_its_end_and_nothing_is_measured_twice(resumed):
    out, before = resumed
    assert before
    assert {path: path.stat().st_mtime_ns for path in before} == before
    _assert_whole(out)


def test_a_cell_is_the_ordinary_run_of_its_recipe(agon, whole, tmp_path):
    assert agon("train", whole / "recipes" / "another-order-s1.toml", "--out", tmp_path / "run") == 0
    cell = whole / "cells" / "another-order-s1"
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (cell / "metrics.jsonl").read_bytes()


def test_arms_and_cells_are_named_in_the_matrix_and_the_order_differs_at_the_same_seed(whole):
    matrix = _json(whole / "matrix.json")
    assert [(arm["name"], arm["title"], arm["method"], arm["group"], arm["set"]) for arm in matrix["arms"]] == [
        ("grpo", "GRPO", "grpo", "baseline", {}),
        ("another-order", "another-order", "agon", "init", {"train.order_seed": 9}),
    ]
    assert matrix["cells"][3] == {"arm": "another-order", "seed": 1, "run": "cells/another-order-s1"}
    config = _json(whole / "cells" / "another-order-s0" / "config.json")
    assert (config["train"]["seed"], config["train"]["order_seed"]) == (0, 9)

    from agon.runs import match_files, read_matches

    problems = {
        name: {match.problem.id for match in read_matches(match_files(whole / "cells" / name)[0])} for name in CELLS
    }
    # the seed's own order for grpo; order seed 9 for the other arm, whatever its seed
    assert problems["grpo-s0"] != problems["grpo-s1"]
    assert problems["another-order-s0"] == problems["another-order-s1"] != problems["grpo-s0"]


def test_one_direction_of_a_pair_is_chosen_on_the_development_problems(whole):
    for seed in (0, 1):
        folder = whole / "cells" / f"another-order-s{seed}" / "evaluations"
        results = {name: _json(folder / f"cascade-{name}.json") for name in ("a-b", "b-a")}
        assert [results[name]["chosen"] for name in ("a-b", "b-a")].count(True) == 1
        best = max(results.values(), key=lambda result: result["dev_accuracy"])
        chosen = next(result for result in results.values() if result["chosen"])
        assert chosen["dev_accuracy"] == best["dev_accuracy"]
        assert {result["measured"]["checkpoint"] for result in results.values()} == {"step-000002"}


def test_the_base_has_twice_the_cap_where_it_is_asked_for(whole):
    results = [_json(whole / "base" / "evaluations" / f"{label}.json") for label in ("single", "single-doubled-cap")]
    ids = [[row["id"] for row in result["per_problem"]] for result in results]
    assert ids[0] == ids[1]
    assert results[1]["tokens"]["draft"] >= results[0]["tokens"]["draft"]


def test_resuming_a_finished_matrix_says_so_and_runs_nothing(agon, recipe, whole, capsys):
    before = {path: path.stat().st_mtime_ns for path in (whole / "cells").rglob("*") if path.is_file()}
    assert agon("ablate", recipe, "--out", whole, "--resume", "--json") == 0
    told = capsys.readouterr()
    assert "5 done" in told.err
    assert {cell["state"] for cell in json.loads(told.out)["cells"]} == {"done"}
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_failed_cell_is_named_with_its_log_and_the_others_go_on(agon, recipe, whole, tmp_path, capsys):
    out = tmp_path / "copy"
    shutil.copytree(whole, out)
    shutil.rmtree(out / "cells" / "grpo-s0")
    (out / "cells" / "grpo-s0").mkdir()
    (out / "cells" / "grpo-s0" / "thesis.tex").write_text("")
    (out / "cells" / "grpo-s1" / "evaluations" / "single-a.json").unlink()
    assert agon("ablate", recipe, "--out", out, "--resume") == 1
    told = capsys.readouterr().err
    assert "cell grpo-s0:" in told
    assert "thesis.tex" in told
    assert str(out / "recipes" / "grpo-s0.log") in told
    assert "1 of 5 cells failed" in told
    # measured again, from the same checkpoint with the same seed
    again, before = (path / "cells" / "grpo-s1" / "evaluations" / "single-a.json" for path in (out, whole))
    assert _json(again)["per_problem"] == _json(before)["per_problem"]


def test_a_matrix_is_compared_as_a_whole_and_is_no_single_run(agon, whole, capsys):
    assert agon("compare", whole, "--json") == 0
    arms = json.loads(capsys.readouterr().out)["arms"]
    assert {"base", "grpo", "another-order"} == {arm["name"] for arm in arms}
    assert agon("solve", whole, "12 7 5 = 24") == 1
    assert "holds several runs (cells/grpo-s0" in capsys.readouterr().err


def test_arms_of_unequal_budgets_are_refused_before_anything_starts(agon, recipe, tmp_path, capsys):
    other = tmp_path / "other.toml"
    other.write_text(RECIPE.replace('{ "train.order_seed" = 9 }', '{ "train.group_size" = 4 }'))
    assert agon("ablate", other, "--out", tmp_path / "out") == 2
    assert "rollouts of each problem (grpo 4, another-order 8)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
