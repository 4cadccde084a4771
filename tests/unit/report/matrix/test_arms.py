import pytest

from agon.report.collect import collect
from agon.report.matrix.arms import arm_budgets, arms_of
from agon.report.matrix.tree import Tree


def test_an_arm_holds_the_runs_of_its_seeds_and_runs_elsewhere_are_left_out(study, fake, tmp_path, monkeypatch):
    for seed in (0, 1):
        fake.run(tmp_path / f"agon-s{seed}", "agon", seed=seed, steps=4, num_matches=1)
    nodes = [
        study.arm("late", "late", "agon", "init", ["nowhere"], None),
        study.arm("agon", "Agon", "agon", "exchange", ["agon-s0", "agon-s1"], None),
    ]
    # The tree names runs as the user typed them.
    monkeypatch.chdir(tmp_path)
    collected = collect([tmp_path / "agon-s0", tmp_path / "agon-s1"])
    first, second = arms_of(Tree.of(study.tree(nodes, [])), collected.runs)
    assert (first.title, first.seeds, [run.name for run in first.runs]) == ("Agon", (0, 1), ["agon-s0", "agon-s1"])
    assert (second.title, second.runs) == ("late", ())
    (budget,) = arm_budgets([first, second])
    # 4 steps of 16 problems with 16 rollouts each, 0.55 s a step.
    assert (budget.num_runs, budget.steps, budget.rollouts) == (2, "4", 1024)
    assert budget.wall_s == pytest.approx(2.2)
