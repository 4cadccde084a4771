from agon.report.matrix.table import protocols_of, table_lines
from agon.report.matrix.tree import Tree


def pair_rows(study, name, **accuracies):
    return [
        study.row(name, name, who, protocol="cascade", accuracy=accuracy, direction=who)
        for who, accuracy in zip(("a-b", "b-a", "mean", "chosen"), accuracies.values(), strict=True)
    ]


def test_the_rows_of_both_directions_make_one_line(study):
    rows = pair_rows(study, "agon", first=0.66, second=0.72, mean=0.69, chosen=0.71)
    node = study.arm("agon", "agon", "agon", "exchange", ["r"], "agon:cascade:chosen")
    (line,) = table_lines(Tree.of(study.tree([node], rows)))
    assert (line.accuracy("first"), line.accuracy("second"), line.accuracy("mean")) == (0.66, 0.72, 0.69)
    assert line.own["accuracy"] == 0.71
    assert line.is_headline


def test_without_a_chosen_direction_the_mean_stands_for_the_line(study):
    rows = pair_rows(study, "agon", first=0.66, second=0.72, mean=0.69, chosen=0.71)[:3]
    (line,) = table_lines(Tree.of(study.tree([study.arm("agon", "agon", "agon", None, ["r"], None)], rows)))
    assert (line.own["who"], line.is_headline) == ("mean", False)


def test_protocols_of_an_arm_and_numbers_of_drafts_are_lines_of_their_own(study):
    rows = [
        study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6),
        {**study.row("grpo", "GRPO", "a", protocol="majority", accuracy=0.64), "drafts": 2},
        {**study.row("grpo", "GRPO", "a", protocol="majority", accuracy=0.66), "drafts": 4, "id": "grpo:majority:a4"},
    ]
    node = study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a")
    lines = table_lines(Tree.of(study.tree([node], rows)))
    assert protocols_of(lines) == ["single", "majority, 2 drafts", "majority, 4 drafts"]


def test_two_rows_for_one_place_are_both_shown(study):
    row = study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6)
    node = study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a")
    lines = table_lines(Tree.of(study.tree([node], [row, {**row, "id": "again", "accuracy": 0.5}])))
    assert [line.own["accuracy"] for line in lines] == [0.6, 0.5]


def test_lines_stand_by_group_and_an_arms_headline_before_its_other_protocols(study):
    rows = [
        study.row("late", "late", "a", protocol="single", accuracy=0.6),
        study.row("early", "early", "a", protocol="majority", accuracy=0.6),
        study.row("early", "early", "a", protocol="single", accuracy=0.6),
        study.row("base", "base", "base", protocol="single", accuracy=0.4),
    ]
    nodes = [
        study.arm("late", "late", "agon", "init", ["r"], None),
        study.arm("early", "early", "grpo", "baseline", ["r"], "early:single:a"),
        study.arm("base", "base", None, None, [], "base:single:base"),
    ]
    lines = table_lines(Tree.of(study.tree(nodes, rows)))
    assert [(line.arm, line.protocol) for line in lines] == [
        ("base", "single"),
        ("early", "single"),
        ("early", "majority"),
        ("late", "single"),
    ]


def test_a_line_holds_the_tests_of_its_own_row(study):
    rival = study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6)
    rows = pair_rows(study, "agon", first=0.66, second=0.72, mean=0.69, chosen=0.71)
    nodes = [
        study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a"),
        study.arm("agon", "Agon", "agon", "exchange", ["r"], "agon:cascade:chosen"),
    ]
    first, second = table_lines(Tree.of(study.tree(nodes, [rival, *rows], rivals=("grpo:single:a",))))
    assert (first.is_rival, first.tests) == (True, {})
    assert list(second.tests) == ["grpo:single:a"]
