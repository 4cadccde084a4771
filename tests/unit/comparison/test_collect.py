import json
from pathlib import Path

import pytest

from agon.comparison.collect import collect
from agon.errors import RunError


def test_a_run_gives_its_settings_its_mean_metrics_and_its_evaluations(fake, tmp_path):
    rows = [
        {"draft/dead_group_share": 0.2, "challenge/dead_group_share": 0.4, "pair/distance": 1.4},
        {"draft/dead_group_share": 0.4, "challenge/dead_group_share": None, "pair/distance": 1.2},
    ]
    run = fake.run(tmp_path / "agon", seed=3, metrics=rows)
    fake.evaluate(run, "cascade", "1100", protocol="cascade", direction="a-b")
    collected = collect([run, run])
    (training,) = collected.trainings
    (measured,) = collected.measured
    assert (training.seed, training.method, training.steps, training.is_finished) == (3, "agon", 2, True)
    # drafts (0.2 + 0.4) / 2 = 0.3, challenges 0.4 alone; the mean of both streams is 0.35
    assert training.mean_of_streams("dead_group_share") == pytest.approx(0.35)
    assert training.mean_of_streams("revived_group_share") is None
    assert training.distances == (1.4, 1.2)
    assert training.config["rollout.max_draft_tokens"] == 44
    assert measured.training is training
    assert (measured.label, measured.direction, measured.samples) == ("cascade", "a-b", 1)
    assert measured.correct == {"p000": [True], "p001": [True], "p002": [False], "p003": [False]}


def test_a_run_given_twice_in_two_spellings_counts_once(fake, tmp_path, monkeypatch):
    fake.parent(tmp_path / "q", children=["agon", "grpo"], default="agon")
    fake.evaluate(fake.run(tmp_path / "q/agon"), "single", "10")
    fake.evaluate(tmp_path / "q", "zero-shot", "10", method=None)
    monkeypatch.chdir(tmp_path)
    collected = collect([Path("q/agon"), tmp_path / "q", Path("q"), Path("q/../q/agon")])
    assert [training.run for training in collected.trainings] == ["q/agon"]
    assert [item.label for item in collected.measured] == ["single", "zero-shot"]
    assert collected.waiting == (str(tmp_path / "q/grpo"),)


def test_a_cell_given_by_itself_before_its_matrix_still_belongs_to_its_arm(fake, tmp_path, monkeypatch):
    matrix = fake.matrix(tmp_path / "m", {"w3": ("agon", "exchange", {})}, seeds=(0,))
    fake.evaluate(fake.run(matrix / "cells/w3-s0"), "single-a", "10")
    monkeypatch.chdir(tmp_path)
    ((_, runs),) = collect([Path("m/cells/w3-s0"), matrix]).named
    assert runs == ("m/cells/w3-s0",)


def test_a_base_measured_in_a_runs_folder_is_no_result_of_the_run(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    fake.evaluate(run, "base", "10", method=None)
    (measured,) = collect([run]).measured
    assert measured.training is None


def test_a_parent_gives_its_children_and_the_evaluations_beside_them(fake, tmp_path):
    parent = tmp_path / "quickstart"
    fake.parent(parent, children=["grpo", "agon"], default="agon")
    fake.evaluate(fake.run(parent / "grpo", "grpo"), "grpo", "10", method="grpo")
    fake.evaluate(parent, "zero-shot", "00", method=None)
    collected = collect([parent])
    assert [item.label for item in collected.measured] == ["grpo", "zero-shot"]
    assert collected.waiting == (str(parent / "agon"),)


def test_a_matrix_names_its_arms_its_rivals_and_what_is_missing(fake, tmp_path):
    matrix = fake.matrix(
        tmp_path / "m", {"w3": ("agon", "exchange", {"reward.conversion": 3.0})}, seeds=(0, 1, 2), rivals=("w3",)
    )
    fake.evaluate(fake.run(matrix / "cells/w3-s0"), "single-a", "10")
    fake.run(matrix / "cells/w3-s1", seed=1)
    fake.evaluate(matrix / "base", "single", "00", method=None)
    collected = collect([matrix])
    ((arm, runs),) = collected.named
    assert (arm.name, arm.title, arm.group, arm.set) == ("w3", "W3", "exchange", {"reward.conversion": 3.0})
    assert runs == tuple(str(matrix / f"cells/w3-s{seed}") for seed in range(3))
    assert collected.rivals == ("w3",)
    assert collected.waiting == (str(matrix / "cells/w3-s2"),)
    assert collected.unmeasured == (str(matrix / "cells/w3-s1"),)
    assert [item.training is None for item in collected.measured] == [False, True]


def test_an_arm_of_two_matrices_has_the_runs_of_both(fake, tmp_path):
    paths = []
    for seed, more in ((0, {}), (1, {"grpo": ("grpo", "baseline", {})})):
        paths.append(fake.matrix(tmp_path / f"m{seed}", {"agon": ("agon", "exchange", {}), **more}, seeds=(seed,)))
        fake.evaluate(fake.run(paths[-1] / f"cells/agon-s{seed}", seed=seed), "single-a", "10")
    named = {arm.name: runs for arm, runs in collect([*paths, tmp_path / "m0" / ".." / "m0"]).named}
    assert named == {
        "agon": (str(paths[0] / "cells/agon-s0"), str(paths[1] / "cells/agon-s1")),
        "grpo": (str(paths[1] / "cells/grpo-s1"),),
    }


@pytest.mark.parametrize("other", [("margin", "exchange", {}), ("agon", "exchange", {"reward.conversion": 3.0})])
def test_an_arm_that_is_another_in_a_second_matrix_is_refused(fake, tmp_path, other):
    paths = [fake.matrix(tmp_path / "m", {"x": ("agon", "exchange", {})}), fake.matrix(tmp_path / "n", {"x": other})]
    for path in paths:
        fake.evaluate(fake.run(path / "cells/x-s0"), "single-a", "10")
    with pytest.raises(RunError, match=r"n has an arm 'x' of .*, another matrix one of agon with \{\}: compare one"):
        collect(paths)


def test_a_run_without_evaluations_is_refused_with_the_command_that_makes_one(fake, tmp_path):
    measured, bare = fake.run(tmp_path / "a"), fake.run(tmp_path / "b")
    fake.evaluate(measured, "single", "10")
    with pytest.raises(RunError, match=rf"{bare} has no evaluation to compare: run `agon eval {bare}` first"):
        collect([measured, bare])


def test_a_folder_of_runs_without_any_evaluation_is_refused(fake, tmp_path):
    fake.parent(tmp_path / "q", children=["agon"], default="agon")
    fake.run(tmp_path / "q/agon")
    with pytest.raises(RunError, match=r"no run in it has an evaluation yet: run `agon eval .*q/agon` first"):
        collect([tmp_path / "q"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"per_problem": []}, "per_problem outcomes"),
        ({"tokens": None}, "is no evaluation"),
        ({"per_problem": [{"id": "p", "correct": 1}]}, "is no evaluation: per_problem is"),
        ({"per_problem": [{"id": "p"}]}, "damaged in per_problem"),
        ({"per_problem": [{"id": "p", "correct": [1]}, {"id": "p", "correct": [0]}]}, "names a problem twice"),
        ({"per_problem": [{"id": "p", "correct": [1]}, {"id": "q", "correct": []}]}, "other numbers of samples"),
    ],
)
def test_an_evaluation_that_cannot_be_paired_is_refused(fake, tmp_path, change, message):
    run = fake.run(tmp_path / "a")
    result = fake.evaluate(run, "single", "10")
    file = run / "evaluations" / "single.json"
    file.write_text(json.dumps({**result, **change}))
    with pytest.raises(RunError, match=message):
        collect([run])


def test_a_run_whose_last_checkpoint_says_so_is_finished_before_its_planned_steps(fake, tmp_path):
    run = fake.run(tmp_path / "dapo", "dapo", steps=5, metrics=[{}] * 3)
    fake.evaluate(run, "single", "10", method="dapo")
    assert not collect([run]).trainings[0].is_finished
    marker = run / "checkpoints/step-000003/complete.json"
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"format_version": 1, "is_last": True, "files": {}}))
    assert collect([run]).trainings[0].is_finished
