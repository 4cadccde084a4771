import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.report.matrix.forest import accuracy_forest, difference_forests, scale_of
from agon.report.matrix.tree import Tree


def test_a_scale_begins_and_ends_at_round_numbers():
    # .41 to .83 is .42 long: steps of .1 give 4.2, at most five; .05 would give 8.4.
    scale = scale_of([0.83, 0.41])
    assert (scale.low, scale.high, scale.ticks) == (0.4, 0.9, (0.4, 0.5, 0.6, 0.7, 0.8, 0.9))
    assert scale.place(0.4) == 0
    assert scale.place(0.65) == 50
    assert scale.place(2.0) == 100
    assert scale.width(0.5, 0.65) == pytest.approx(30)


def test_one_value_has_a_scale_too():
    assert scale_of([0.5]).ticks == (0.5, 0.51)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_a_scale_holds_its_values_in_few_ticks(values):
    scale = scale_of(values)
    assert scale.low <= min(values) + 1e-9
    assert scale.high >= max(values) - 1e-9
    assert 2 <= len(scale.ticks) <= 7


@pytest.fixture
def tree(study):
    rows = [
        study.row("base", "untrained base", "base", protocol="single", accuracy=0.45),
        study.row("base", "untrained base", "base", protocol="moa", accuracy=0.47),
        study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6),
        study.row("grpo", "GRPO", "a", protocol="majority", accuracy=0.64),
        study.row("agon", "Agon", "chosen", protocol="cascade", accuracy=0.7),
    ]
    nodes = [
        study.arm("base", "untrained base", None, None, [], "base:single:base"),
        study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a"),
        study.arm("agon", "Agon", "agon", "exchange", ["r"], "agon:cascade:chosen"),
    ]
    return study.tree(nodes, rows, rivals=("grpo:single:a",))


def test_headlines_and_the_base_are_drawn_best_first_with_the_rivals_line(tree):
    forest = accuracy_forest(Tree.of(tree))
    assert [(row.label, row.value) for row in forest.rows] == [
        ("Agon", 0.7),
        ("GRPO", 0.6),
        ("untrained base", 0.47),
        ("untrained base", 0.45),
    ]
    assert [(marker.label, marker.value) for marker in forest.markers] == [("GRPO", 0.6)]


def test_a_direction_that_was_not_chosen_is_marked_in_differences_too(tree):
    row = next(row for row in tree["rows"] if row["arm"] == "agon")
    row |= {"who": "a-b", "direction": "a-b", "is_unchosen": True}
    (forest,) = difference_forests(Tree.of(tree))
    marked = "cascade, A drafts, B challenges, not the chosen direction"
    assert {row.label: row.detail for row in forest.rows} == {"Agon": marked, "untrained base": "single"}


def test_single_trainings_are_dots_where_there_are_several(tree):
    row = next(row for row in tree["rows"] if row["arm"] == "agon")
    row["per_seed"] = [{**row["per_seed"][0], "accuracy": accuracy} for accuracy in (0.66, 0.74)]
    forest = accuracy_forest(Tree.of(tree))
    assert [row.dots for row in forest.rows] == [(0.66, 0.74), (), (), ()]


def test_differences_show_what_holds_after_holm_and_what_the_test_cannot_see(tree):
    tests = {test["first"]: test for test in tree["tests"]}
    tests["agon:cascade:chosen"] |= {"p": 0.004, "p_holm": 0.049, "difference": 0.1}
    tests["base:single:base"] |= {"p": 0.001, "p_holm": 0.05, "difference": -0.15, "min_detectable": None}
    (forest,) = difference_forests(Tree.of(tree))
    assert forest.title == "Difference to GRPO: single, A"
    assert [(row.label, row.is_filled, row.reach) for row in forest.rows] == [
        ("Agon", True, 0.07),
        ("untrained base", False, None),
    ]
    assert [marker.value for marker in forest.markers] == [0.0]


def test_nothing_measured_is_no_plot(tree):
    empty = {**tree, "arms": [], "rows": [], "tests": [], "frontier": []}
    assert accuracy_forest(Tree.of(empty)) is None
    assert difference_forests(Tree.of(empty)) == []
