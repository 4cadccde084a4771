from hypothesis import given
from hypothesis import strategies as st

from agon.report.matrix.frontier import frontier_json, pareto_front
from agon.report.matrix.tree import Tree


def test_the_front_is_what_nothing_cheaper_matches():
    # (20, .5) and (30, .7) trade cost for accuracy; (30, .6) costs as much as (30, .7), (40, .7) is as good and dearer.
    assert pareto_front([(20, 0.5), (30, 0.7), (30, 0.6), (40, 0.7)]) == [True, True, False, False]


def test_equal_points_are_on_the_front_together():
    assert pareto_front([(20, 0.5), (20, 0.5)]) == [True, True]


POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


@given(POINTS)
def test_every_point_behind_the_front_is_beaten_by_one_on_it(points):
    front = [point for point, is_on in zip(points, pareto_front(points), strict=True) if is_on]
    assert front
    for cost, gain in points:
        assert any(other_cost <= cost and other_gain >= gain for other_cost, other_gain in front)


def test_a_point_says_its_costs_its_group_and_what_beats_it(study):
    rows = [
        study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6),
        study.row("agon", "Agon", "chosen", protocol="cascade", accuracy=0.5),
        study.row("agon", "Agon", "a", protocol="single", accuracy=0.4),
    ]
    nodes = [
        study.arm("agon", "Agon", "agon", "exchange", ["r"], "agon:cascade:chosen"),
        study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a"),
    ]
    data = frontier_json(Tree.of(study.tree(nodes, rows)))
    assert data["groups"] == ["baselines", "exchange"]
    best, pair, alone = data["points"]
    assert (best["group"], best["front"], best["front_all"], best["beaten_by"]) == (0, True, True, None)
    assert (pair["group"], pair["front"], pair["beaten_by"], pair["short"]) == (1, False, "GRPO: single, A", "Agon")
    assert (alone["main"], alone["key"], alone["short"]) == (False, False, "Agon: single")
    assert pair["all"] == pair["total"] + 24.0
