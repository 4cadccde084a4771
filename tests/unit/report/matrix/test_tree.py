import copy

import pytest

from agon.report.matrix.tree import Tree, group_title, in_group_order, name_of, protocol_of, title_of, way_of


@pytest.fixture
def content(study):
    """A tree with a base, one rival and a pair, without any folder behind it."""
    single = study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6)
    pair = [
        study.row("agon", "Agon", who, protocol="cascade", accuracy=0.7, direction=who)
        for who in ("a-b", "b-a", "mean", "chosen")
    ]
    nodes = [
        study.arm("grpo", "GRPO", "grpo", "baseline", ["r0"], "grpo:single:a"),
        study.arm("agon", "Agon", "agon", None, ["r1"], "agon:cascade:chosen"),
    ]
    return study.tree(nodes, [single, *pair], rivals=("grpo:single:a",))


def test_rivals_are_the_rows_that_others_were_tested_against(content):
    assert Tree.of(content).rivals == ("grpo:single:a",)


def test_a_tree_of_another_version_is_refused(content):
    with pytest.raises(ValueError, match="format version 2; this report draws 1"):
        Tree.of({**content, "format_version": 2})


@pytest.mark.parametrize("part", ["headline", "test", "frontier", "panel"])
def test_a_tree_that_names_a_row_it_does_not_hold_is_refused(content, part):
    broken = copy.deepcopy(content)
    if part == "headline":
        broken["arms"][0]["headline"] = "gone"
    elif part == "test":
        broken["tests"][0]["first"] = "gone"
    elif part == "frontier":
        broken["frontier"][0]["row"] = "gone"
    else:
        cell = {"competition": True, "exchange": True, "arm": "agon", "row": "gone"}
        broken["panel_2x2"] = {"cells": [cell], "effects": []}
    with pytest.raises(ValueError, match="names the row 'gone'"):
        Tree.of(broken)


def test_a_row_without_its_arm_is_refused(content):
    with pytest.raises(ValueError, match="holds the row 'agon:cascade:a-b', but not its arm"):
        Tree.of({**content, "arms": content["arms"][:1], "frontier": [], "tests": []})


def test_the_rivals_and_the_panels_last_cell_are_shown_first(content):
    # Without a panel: rivals (grpo), then the trained arms.
    assert Tree.of(content).key_arms == ("grpo", "agon")
    arms = [
        {**content["arms"][0], "name": name, "headline": None}
        for name in ("one", "two", "three", "four", "five", "six")
    ]
    cells = [
        {"competition": False, "exchange": False, "arm": "one", "row": None},
        {"competition": True, "exchange": True, "arm": "six", "row": None},
    ]
    many = {**content, "arms": [*content["arms"], *arms], "panel_2x2": {"cells": cells, "effects": []}}
    assert Tree.of(many).key_arms == ("grpo", "six", "one", "agon")


def test_groups_stand_in_the_pages_order_and_unknown_ones_after_them():
    assert in_group_order(["yours", "mine", "init", "baseline", "mine", "base"]) == [
        "base",
        "baseline",
        "init",
        "yours",
        "mine",
    ]
    assert (group_title("control"), group_title("mine")) == ("controls", "mine")


def test_an_arm_without_a_group_stands_under_its_method(content):
    tree = Tree.of(content)
    assert tree.group_of(tree.rows["agon:cascade:chosen"]) == "agon"
    assert tree.group_of(tree.rows["grpo:single:a"]) == "baseline"


def test_a_row_is_named_with_its_protocol_and_who_played(content):
    row = Tree.of(content).rows["agon:cascade:chosen"]
    assert name_of(row) == "Agon: cascade, chosen direction"
    assert name_of({**row, "drafts": 2, "who": "a-b"}) == "Agon: cascade, 2 drafts, A drafts, B challenges"
    assert (
        name_of({**row, "protocol": "selective", "label": "agreement"})
        == "Agon: selective, agreement, chosen direction"
    )
    assert protocol_of({**row, "label": "cascade-a-b-again"}) == "cascade-a-b-again"
    assert protocol_of({**row, "drafts": 2, "has_doubled_cap": True}) == "cascade, 2 drafts, doubled cap"
    assert way_of({**row, "who": "mean", "direction": None}) == "A and B"
    assert title_of(row) == "Agon"
    unchosen = {**row, "who": "a-b", "is_unchosen": True}
    assert name_of(unchosen) == "Agon: cascade, A drafts, B challenges, not the chosen direction"
    assert title_of(unchosen) == "Agon (not the chosen direction)"
    assert way_of({**row, "who": "base", "direction": None}) == ""
