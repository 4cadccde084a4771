import pytest

from agon.comparison.arms import plan_arms, setting_notes
from agon.comparison.collect import collect
from agon.errors import DataError


def plan(fake, *runs):
    for run in runs:
        fake.evaluate(run, "single", "10")
    return plan_arms(collect(runs))


def test_runs_of_one_method_with_equal_settings_are_seeds_of_one_arm(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", "agon", seed=seed) for seed in (1, 0)]
    (arm,) = plan(
        fake,
        *runs,
    )
    assert (arm.name, arm.method, arm.settings) == ("agon", "agon", {})
    assert [training.seed for training in arm.trainings] == [1, 0]


def test_runs_of_one_method_are_split_by_the_settings_in_which_they_differ(fake, tmp_path):
    runs = [
        fake.run(tmp_path / "a", "agon", reward__conversion=1.0),
        fake.run(tmp_path / "b", "agon", reward__conversion=3.0),
        fake.run(tmp_path / "c", "agon", reward__conversion=3.0, seed=1),
        fake.run(tmp_path / "d", "grpo", reward__conversion=2.0),
    ]
    arms = plan(fake, *runs)
    assert [arm.name for arm in arms] == ["agon-conversion=1.0", "agon-conversion=3.0", "grpo"]
    assert [len(arm.trainings) for arm in arms] == [1, 2, 1]
    assert arms[1].settings == {"reward.conversion": 3.0}


def test_grpo_with_twice_the_cap_is_called_so(fake, tmp_path):
    runs = [
        fake.run(tmp_path / "a", "grpo", rollout__max_draft_tokens=88),
        fake.run(tmp_path / "b", "grpo", rollout__max_draft_tokens=44),
    ]
    assert [arm.name for arm in plan(fake, *runs)] == ["grpo-doubled-cap", "grpo"]


def test_a_cap_that_is_not_doubled_is_named_by_its_value(fake, tmp_path):
    runs = [fake.run(tmp_path / str(cap), "grpo", rollout__max_draft_tokens=cap) for cap in (44, 66)]
    assert [arm.name for arm in plan(fake, *runs)] == ["grpo", "grpo-max_draft_tokens=66"]


def test_where_a_run_computes_makes_no_arm_of_its_own_unless_seeds_repeat(fake, tmp_path):
    apart = [fake.run(tmp_path / f"s{i}", seed=i, rollout__engine=name) for i, name in enumerate(("torch", "vllm"))]
    assert [arm.name for arm in plan(fake, *apart)] == ["agon"]
    same = [fake.run(tmp_path / name, seed=0, rollout__engine=name) for name in ("torch", "vllm")]
    assert [arm.name for arm in plan(fake, *same)] == ["agon-engine=torch", "agon-engine=vllm"]


def test_other_alarms_make_no_arm_of_its_own(fake, tmp_path):
    runs = [fake.run(tmp_path / mode, seed=i, alarms__truncated=mode) for i, mode in enumerate(("warn", "off"))]
    assert [arm.name for arm in plan(fake, *runs)] == ["agon"]


def test_a_run_that_drops_answers_is_no_seed_of_one_from_before_that_could_be_set(fake, tmp_path):
    # The first two hold no task.withholding, and left a mark.
    runs = [fake.run(tmp_path / f"s{seed}", seed=seed) for seed in (0, 1)]
    runs += [fake.run(tmp_path / mode, seed=2, task__withholding=mode) for mode in ("mark", "drop")]
    arms = plan(fake, *runs)
    assert [arm.name for arm in arms] == ["agon-withholding=mark", "agon-withholding=drop"]
    assert [[training.seed for training in arm.trainings] for arm in arms] == [[0, 1, 2], [2]]


def test_the_same_arm_with_the_same_seed_twice_is_refused(fake, tmp_path):
    with pytest.raises(DataError, match="are both agon with seed 0: leave one of them out"):
        plan(fake, fake.run(tmp_path / "a"), fake.run(tmp_path / "b"))


def two_matrices(fake, tmp_path, *settings, seeds=(0, 1), data=("d0", "d0")):
    """Two matrices of the arm agon with one seed each, their runs with the settings given."""
    for path, seed, own, hashed in zip(("m", "n"), seeds, settings, data, strict=True):
        matrix = fake.matrix(tmp_path / path, {"agon": ("agon", "exchange", {})}, seeds=(seed,))
        fake.evaluate(fake.run(matrix / f"cells/agon-s{seed}", seed=seed, data=hashed, **own), "single-a", "10")
    return plan_arms(collect([tmp_path / "m", tmp_path / "n"]))


def test_seeds_of_one_arm_may_stand_in_two_matrices_made_on_different_machines(fake, tmp_path):
    ((arm),) = two_matrices(
        fake,
        tmp_path,
        {"model__base": "/a", "task__path": "/a.jsonl", "rollout__max_rows": 64, "evaluation__samples": 2},
        {"model__base": "/b", "task__path": "/b.jsonl", "rollout__max_rows": 512, "evaluation__samples": 4},
    )
    assert [training.seed for training in arm.trainings] == [0, 1]


def test_runs_that_learned_otherwise_are_no_seeds_of_one_arm(fake, tmp_path):
    rates = ({"train__learning_rate": 1e-3, "task__wording": "w"}, {"train__learning_rate": 2e-3, "task__wording": "v"})
    with pytest.raises(
        DataError, match=r"agon: they differ in train\.learning_rate, task\.wording; compare them apart"
    ):
        two_matrices(fake, tmp_path, *rates)


def test_runs_on_other_data_are_no_seeds_of_one_arm(fake, tmp_path):
    with pytest.raises(
        DataError, match="no two seeds of one arm, agon: they differ in the task's data; compare them apart"
    ):
        two_matrices(fake, tmp_path, {}, {}, data=("d0", "d1"))


def test_a_run_from_before_a_setting_was_written_does_not_join_two_that_differ_in_it(fake, tmp_path):
    for seed, own in enumerate(({}, {"train__learning_rate": 1e-3}, {"train__learning_rate": 2e-3})):
        matrix = fake.matrix(tmp_path / f"m{seed}", {"agon": ("agon", "exchange", {})}, seeds=(seed,))
        fake.evaluate(fake.run(matrix / f"cells/agon-s{seed}", seed=seed, **own), "single-a", "10")
    with pytest.raises(
        DataError, match=r"agon-s1 and .*agon-s2 are no two seeds of one arm, agon: they differ in train\.learning_rate"
    ):
        plan_arms(collect([tmp_path / f"m{seed}" for seed in range(3)]))


def test_two_matrices_with_the_same_seed_of_an_arm_are_refused(fake, tmp_path):
    with pytest.raises(DataError, match="are both agon with seed 0: leave one of them out"):
        two_matrices(fake, tmp_path, {}, {}, seeds=(0, 0))


def test_a_run_beside_a_matrix_keeps_a_name_of_its_own(fake, tmp_path):
    matrix = fake.matrix(tmp_path / "m", {"agon": ("agon", "exchange", {})}, seeds=(0,))
    fake.evaluate(fake.run(matrix / "cells/agon-s0"), "single-a", "10")
    other = fake.run(tmp_path / "mine")
    fake.evaluate(other, "single", "10")
    assert [arm.name for arm in plan_arms(collect([matrix, other]))] == ["agon", "agon (mine)"]


def test_settings_that_differ_beside_the_method_are_said(fake, tmp_path):
    runs = [
        fake.run(tmp_path / "a", "agon", train__learning_rate=1e-3, model__base="/a"),
        fake.run(tmp_path / "b", "grpo", train__learning_rate=2e-3, model__base="/b"),
    ]
    assert setting_notes(plan(fake, *runs)) == ["arms also differ in train.learning_rate"]
