import pytest

from agon.report.matrix.panels import init_lines, init_scale, panel_2x2
from agon.report.matrix.tree import Tree


@pytest.fixture
def tree(study):
    rows = [
        study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6),
        study.row("agon", "Agon", "chosen", protocol="cascade", accuracy=0.7),
    ]
    nodes = [
        study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a"),
        study.arm("agon", "Agon", "agon", "exchange", ["r"], "agon:cascade:chosen"),
    ]
    return study.tree(nodes, rows)


CELLS = [
    {"competition": False, "exchange": False, "arm": "grpo", "row": "grpo:single:a"},
    {"competition": True, "exchange": False, "arm": "shared-hidden", "row": None},
    {"competition": True, "exchange": True, "arm": "agon", "row": "agon:cascade:chosen"},
]


def test_cells_stand_by_exchange_and_competition(tree):
    panel = panel_2x2(Tree.of({**tree, "panel_2x2": {"cells": CELLS, "effects": []}}))
    assert panel.cells[False, False].row["accuracy"] == 0.6
    assert (panel.cells[True, True].arm, panel.cells[True, True].detail) == ("Agon", "cascade, chosen direction")
    assert (panel.cells[False, True].arm, panel.cells[False, True].row) == ("shared-hidden", None)
    assert (True, False) not in panel.cells
    assert panel.effects is None


@pytest.mark.parametrize(
    ("arm", "detail"),
    [
        ("independent", "single, A and B, two adapters that never meet"),
        ("grpo", "single, A and B, one adapter with the rollouts of both"),
        ("agon", "single, A and B"),
    ],
)
def test_the_cell_without_either_says_what_stands_for_it(study, arm, detail):
    row = study.row(arm, arm, "mean", protocol="single", accuracy=0.6)
    nodes = [study.arm(arm, arm, arm, "control", ["r"], row["id"])]
    cell = {"competition": False, "exchange": False, "arm": arm, "row": row["id"]}
    tree = {**study.tree(nodes, [row]), "panel_2x2": {"cells": [cell], "effects": []}}
    assert panel_2x2(Tree.of(tree)).cells[False, False].detail == detail
    # In any other cell the arm's name says it.
    tree["panel_2x2"]["cells"] = [{**cell, "exchange": True}]
    assert panel_2x2(Tree.of(tree)).cells[True, False].detail == "single, A and B"


def test_effects_are_drawn_on_a_scale_that_holds_zero(tree):
    effect = {"name": "exchange", "difference": 0.12, "interval": {"low": 0.07, "high": 0.17}}
    panel = panel_2x2(Tree.of({**tree, "panel_2x2": {"cells": CELLS, "effects": [effect]}}))
    assert (panel.effects.rows[0].label, panel.effects.rows[0].value) == ("exchange", 0.12)
    assert panel.effects.scale.low == 0.0
    assert panel.effects.scale.high >= 0.17


def test_a_comparison_without_panels_has_none(tree):
    assert panel_2x2(Tree.of(tree)) is None
    assert init_lines(Tree.of(tree)) == []
    assert init_scale([]) is None


def test_initialisations_hold_their_row_and_distances(tree):
    node = {"arm": "agon", "title": "Agon, zero", "settings": {"adapter.init": "zero"}}
    node |= {"row": "agon:cascade:chosen", "distance_first": 2.0, "distance_last": 1.3}
    lines = init_lines(Tree.of({**tree, "init_panel": [node, {**node, "row": None}]}))
    assert [line.row and line.row["accuracy"] for line in lines] == [0.7, None]
    assert [line.title for line in lines] == ["Agon, zero", "Agon, zero"]
    assert (lines[0].distance_first, lines[0].distance_last) == (2.0, 1.3)
    # The row's interval is .66 to .74.
    assert (init_scale(lines).low, init_scale(lines).high) == (0.66, 0.74)
    tree["rows"][1]["is_unchosen"] = True
    (line,) = init_lines(Tree.of({**tree, "init_panel": [node]}))
    assert line.title == "Agon, zero (not the chosen direction)"
