from __future__ import annotations

import pytest

from agon.ablation.plan import plan_matrix
from agon.ablation.run import (
    adopt,
    cell_states,
    check_plan,
    describe_states,
    matrix_in,
    merge_matrices,
    starting_order,
    stuck_cells,
)
from agon.errors import ConfigError, RunError
from agon.runs import RunFolder
from agon.runs.matrix import write_matrix

AGON = {"name": "agon"}
SAME = {"name": "same", "method": "agon"}
GRPO = {"name": "grpo"}


def plan(*arms, seeds=(0,), **train):
    tree = {"train": {"steps": 2, "problems_per_step": 4, "group_size": 4, **train}, "matrix": {"arms": list(arms)}}
    return plan_matrix(tree, source="r.toml", name="r", seeds=seeds)


def test_a_new_matrix_wants_an_empty_folder_and_an_old_one_resume(tmp_path):
    assert matrix_in(tmp_path / "new", resume=False) is None
    with pytest.raises(ConfigError, match="holds no matrix to resume: start it without --resume"):
        matrix_in(tmp_path / "new", resume=True)
    matrix = plan(AGON).matrix
    write_matrix(tmp_path, matrix)
    assert matrix_in(tmp_path, resume=True) == matrix
    with pytest.raises(RunError, match=r"is not empty \(matrix\.json\): continue it with --resume"):
        matrix_in(tmp_path, resume=False)


def test_a_run_that_an_arm_has_is_taken_although_it_would_now_be_named_after_another():
    before = plan(SAME, GRPO).matrix
    adopted = adopt(plan(AGON, SAME, GRPO), before)
    assert [cell.run for cell in adopted.cells] == ["cells/same-s0", "cells/grpo-s0"]
    assert [(cell.arm, cell.run) for cell in adopted.matrix.cells] == [
        ("agon", "cells/same-s0"),
        ("same", "cells/same-s0"),
        ("grpo", "cells/grpo-s0"),
    ]


def test_an_arm_that_has_changed_is_refused():
    before = plan({**AGON, "set": {"reward.conversion": 2.0}}).matrix
    with pytest.raises(
        ConfigError, match=r"the arm agon was agon with \{'reward\.conversion': 2\.0\}, and is agon with \{\}"
    ):
        adopt(plan(AGON), before)


def test_a_resume_of_a_part_does_not_forget_the_rest():
    whole, part = plan(GRPO, AGON, seeds=(0, 1)).matrix, plan(AGON, SAME, seeds=(2,)).matrix
    merged = merge_matrices(whole, part)
    assert merged.seeds == (0, 1, 2)
    assert {arm.name for arm in merged.arms} == {"grpo", "agon", "same"}
    assert {(cell.arm, cell.seed) for cell in merged.cells} == {
        *((arm, seed) for arm in ("grpo", "agon") for seed in (0, 1)),
        ("agon", 2),
        ("same", 2),
    }


def test_cells_that_have_not_begun_or_not_ended_are_told_apart(tmp_path):
    planned = plan(AGON, GRPO)
    settings = planned.cells[0].settings.model_dump(mode="json")
    RunFolder.create(tmp_path / "cells" / "agon-s0", settings=settings).close()
    states = cell_states(planned, tmp_path)
    assert states == {"base": "waiting", "agon-s0": "begun", "grpo-s0": "waiting"}
    assert describe_states(states) == "1 begun, 2 waiting"


def test_the_base_comes_after_the_cells_of_the_first_seed_and_what_is_done_never(tmp_path):
    planned = plan(AGON, GRPO, seeds=(3, 1))
    states = cell_states(planned, tmp_path)
    assert starting_order(planned, states) == ["agon-s3", "grpo-s3", "base", "agon-s1", "grpo-s1"]
    assert starting_order(planned, {**states, "agon-s3": "done", "grpo-s1": "begun"}) == [
        *("grpo-s3", "base", "agon-s1", "grpo-s1")
    ]
    assert starting_order(planned, {**states, "base": "done"}) == ["agon-s3", "grpo-s3", "agon-s1", "grpo-s1"]


def test_a_base_that_is_not_measured_is_no_cell(tmp_path):
    tree = {"train": {"steps": 2, "problems_per_step": 4, "group_size": 4}, "matrix": {"arms": [AGON], "base": []}}
    planned = plan_matrix(tree, source="r.toml", name="r", seeds=(0,))
    assert cell_states(planned, tmp_path) == {"agon-s0": "waiting"}


def test_a_cell_with_other_settings_is_refused_before_anything_starts(tmp_path):
    settings = plan(AGON).cells[0].settings.model_dump(mode="json")
    RunFolder.create(tmp_path / "cells" / "agon-s0", settings=settings).close()
    with pytest.raises(ConfigError, match=r"differ from the run in .*agon-s0: train\.learning_rate \(5e-05 -> 0\.1\)"):
        check_plan(plan(AGON, learning_rate=0.1), tmp_path)


def test_an_evaluation_that_cannot_be_made_is_refused_before_anything_starts(tmp_path):
    tree = {
        "evaluation": {"temperature": 0.0},
        "matrix": {"arms": [AGON], "pair": ["selective-a-b"], "base": ["single"]},
    }
    planned = plan_matrix(tree, source="r.toml", name="r", seeds=[0])
    with pytest.raises(ConfigError, match=r"evaluation\.temperature is 0.*selective"):
        check_plan(planned, tmp_path)


def test_cells_that_cannot_be_gone_on_with_are_named_before_anything_starts(tmp_path):
    planned = plan(AGON, GRPO, seeds=(0, 1))
    damaged, measured, fine = (tmp_path / cell.run for cell in planned.cells[1:])
    for cell in planned.cells:
        with RunFolder.create(tmp_path / cell.run, settings=cell.settings.model_dump(mode="json")) as run:
            if run.path != measured:
                with run.checkpoint(1) as place:
                    for name in "AB" if run.path == fine else "":
                        (place / f"optimizer-{name}.safetensors").write_text("moments")
                    (place / "state.json").write_text("{}")
    (damaged / "checkpoints" / "step-000001" / "complete.json").unlink()
    (measured / "evaluations" / "single-a.json").write_text("{}")
    states = cell_states(planned, tmp_path)
    assert describe_states(states) == "4 begun, 1 waiting"
    warnings = stuck_cells(planned, tmp_path, states)
    names = [cell.name for cell in planned.cells]
    assert [line.split(":")[:2] for line in warnings] == [
        ["warning", f" the cell {name} will fail"] for name in names[:3]
    ]
    assert "cannot be trained on from: the optimiser's moments (optimizer-A.safetensors)" in warnings[0]
    assert "has no checkpoint to go on from: checkpoint step-000001 is damaged" in warnings[1]
    assert "holds results (single-a.json) and no checkpoint that they are of" in warnings[2]
    assert stuck_cells(planned, tmp_path, dict.fromkeys(states, "done")) == []
