from agon.records import Problem
from agon.tasks.data import DroppedRow, Origin, TaskData


def problem(id_):
    return Problem(id_, f"question {id_}", "1", "t", "math")


def test_a_problem_taken_out_is_listed_with_its_row_and_reason():
    data = TaskData(
        "t",
        train=(problem("a"), problem("b")),
        dev=(),
        test=(problem("c"), problem("d")),
        bad_rows=(DroppedRow(1, "blank", "f"),),
        origins={"b": Origin(7, "f"), "c": Origin(9, "g")},
    )
    left = data.without({"b": "no gold", "c": "no gold either", "x": "not there"})
    assert [one.id for split in left.splits.values() for one in split] == ["a", "d"]
    assert left.bad_rows == (
        DroppedRow(1, "blank", "f"),
        DroppedRow(7, "no gold", "f"),
        DroppedRow(9, "no gold either", "g"),
    )


def test_a_generated_problem_taken_out_has_no_row():
    data = TaskData("t", train=(problem("a"),), dev=(), test=())
    assert data.without({"a": "why"}).bad_rows == (DroppedRow(None, "why", "t"),)
