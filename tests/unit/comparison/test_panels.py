import pytest

from agon.comparison.arms import plan_arms
from agon.comparison.collect import collect
from agon.comparison.panels import init_panel, panel_2x2
from agon.comparison.rows import build_rows


def built_of(*paths):
    collected = collect(paths)
    arms = plan_arms(collected)
    built, _ = build_rows(arms, collected.measured, protocols=None, seed=1)
    return arms, built


def four(fake, tmp_path):
    """8 problems. grpo 2/8, shared-hidden (A 2/8, B 4/8) 3/8, cooperative 5/8, agon 7/8."""
    runs = {name: fake.run(tmp_path / name, name) for name in ("grpo", "shared-hidden", "cooperative", "agon")}
    fake.evaluate(runs["grpo"], "single", "11000000", method="grpo")
    b = {"drafters": ["B"], "challenger": None}
    fake.evaluate(runs["shared-hidden"], "a", "11000000", method="shared-hidden")
    fake.evaluate(runs["shared-hidden"], "b", "11110000", method="shared-hidden", players=b)
    fake.evaluate(
        runs["shared-hidden"], "c", "11111111", method="shared-hidden", protocol="cascade", direction="a-b", chosen=True
    )
    for name, marks in (("cooperative", "11111000"), ("agon", "11111110")):
        fake.evaluate(runs[name], "c", marks, method=name, protocol="cascade", direction="a-b", chosen=True)
    return list(runs.values())


def test_without_exchange_one_pass_counts_and_with_it_the_cascade(fake, tmp_path):
    _, built = built_of(*four(fake, tmp_path))
    panel = panel_2x2(built, seed=1)
    assert [(cell.competition, cell.exchange, cell.row) for cell in panel.cells] == [
        (False, False, "grpo:single:a"),
        (True, False, "shared-hidden:single:mean"),
        (False, True, "cooperative:cascade:chosen"),
        (True, True, "agon:cascade:chosen"),
    ]
    effects = {effect.name: effect.difference for effect in panel.effects}
    # in eighths: 5-2, 7-3, 3-2, 7-5, and (7-5) - (3-2)
    assert {name: 8 * value for name, value in effects.items()} == pytest.approx(
        {
            "exchange without competition": 3,
            "exchange with competition": 4,
            "competition without exchange": 1,
            "competition with exchange": 2,
            "interaction": 1,
        }
    )
    for effect in panel.effects:
        assert effect.interval.low <= effect.difference <= effect.interval.high


def test_two_adapters_that_never_meet_stand_for_neither_before_grpo(fake, tmp_path):
    runs = four(fake, tmp_path)
    apart = fake.run(tmp_path / "independent", "independent")
    # The mean of 0/8 and 2/8 is 1/8; GRPO's is 2/8.
    fake.evaluate(apart, "a", "00000000", method="independent")
    b = {"drafters": ["B"], "challenger": None}
    fake.evaluate(apart, "b", "11000000", method="independent", players=b)
    panel = panel_2x2(built_of(*runs, apart)[1], seed=1)
    assert [cell.arm for cell in panel.cells] == ["independent", "shared-hidden", "cooperative", "agon"]
    assert panel.cells[0].row == "independent:single:mean"
    effects = {effect.name: 8 * effect.difference for effect in panel.effects}
    # in eighths: 5-1 and 3-1
    assert effects["exchange without competition"] == pytest.approx(4)
    assert effects["competition without exchange"] == pytest.approx(2)


def test_grpo_stands_for_neither_where_independent_adapters_were_trained_but_not_measured_alone(fake, tmp_path):
    runs = four(fake, tmp_path)
    apart = fake.run(tmp_path / "independent", "independent")
    fake.evaluate(apart, "c", "11111111", method="independent", protocol="cascade", direction="a-b", chosen=True)
    panel = panel_2x2(built_of(*runs, apart)[1], seed=1)
    assert (panel.cells[0].arm, panel.cells[0].row) == ("grpo", "grpo:single:a")


def test_a_doubled_cap_stands_in_no_cell(fake, tmp_path):
    runs = four(fake, tmp_path)
    (runs[0] / "evaluations" / "single.json").unlink()
    fake.evaluate(runs[0], "single", "11000000", method="grpo", doubled_cap=True)
    panel = panel_2x2(built_of(*runs)[1], seed=1)
    assert (panel.cells[0].row, panel.effects) == (None, ())


def test_what_was_asked_otherwise_than_in_training_stands_in_no_cell(fake, tmp_path):
    runs = four(fake, tmp_path)
    (runs[0] / "evaluations" / "single.json").unlink()
    told = "measured with task.withholding=drop, trained with mark"
    fake.evaluate(runs[0], "single", "11000000", method="grpo", notes=[told])
    panel = panel_2x2(built_of(*runs)[1], seed=1)
    assert (panel.cells[0].row, panel.effects) == (None, ())


def test_an_interaction_leaves_out_the_seeds_that_not_all_four_arms_have(fake, tmp_path):
    runs = four(fake, tmp_path)
    for name, marks in (("grpo", "00000000"), ("agon", "11111111"), ("cooperative", "11111000")):
        run = fake.run(tmp_path / f"{name}-1", name, seed=1)
        runs.append(run)
        kind = {} if name == "grpo" else {"protocol": "cascade", "direction": "a-b", "chosen": True}
        fake.evaluate(run, "c", marks, method=name, **kind)
    _, built = built_of(*runs)
    interaction = panel_2x2(built, seed=1).effects[-1]
    # Only one seed has all four arms: (7-5) - (3-2) eighths.
    assert 8 * interaction.difference == pytest.approx(1)
    assert interaction.interval.unit == "problem"


def test_a_panel_with_a_gap_has_no_effects_and_one_with_grpo_alone_is_no_panel(fake, tmp_path):
    grpo, _, cooperative, _ = four(fake, tmp_path)
    panel = panel_2x2(built_of(grpo, cooperative)[1], seed=1)
    assert [cell.row for cell in panel.cells] == ["grpo:single:a", None, "cooperative:cascade:chosen", None]
    assert panel.effects == ()
    assert panel_2x2(built_of(grpo)[1], seed=1) is None


def test_initialisations_show_how_far_apart_their_adapters_were(fake, tmp_path):
    arms = {"noise": ("agon", "init", {"adapter.init": "noise"}), "agon": ("agon", "exchange", {})}
    matrix = fake.matrix(tmp_path / "m", arms)
    for name in arms:
        for seed, last in ((0, 1.0), (1, 0.5)):
            metrics = [{"pair/distance": 1.5}, {"pair/distance": last}]
            run = fake.run(matrix / f"cells/{name}-s{seed}", seed=seed, metrics=metrics)
            fake.evaluate(run, "single-a", "10")
    planned, built = built_of(matrix)
    (row,) = init_panel(planned, {item.row.arm: item for item in built})
    # the last steps' 1.0 and 0.5 have the mean 0.75
    assert (row.arm, row.row, row.distance_first, row.distance_last) == ("noise", "noise:single:a", 1.5, 0.75)
    assert row.settings == {"adapter.init": "noise"}


def test_runs_that_differ_in_their_initialisation_make_the_panel_without_a_matrix(fake, tmp_path):
    runs = [fake.run(tmp_path / init, adapter__init=init) for init in ("noise", "standard")]
    for run in runs:
        fake.evaluate(run, "single", "10")
    planned, built = built_of(*runs)
    rows = init_panel(planned, {item.row.arm: item for item in built})
    assert [row.arm for row in rows] == ["agon-init=noise", "agon-init=standard"]
    assert rows[0].distance_first is None
