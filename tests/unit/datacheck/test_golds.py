from agon.config import VerifierSettings
from agon.datacheck.golds import drop_unreadable, judge_golds, unreadable
from agon.records import Problem
from agon.tasks.data import DroppedRow, Origin, TaskData

SETTINGS = VerifierSettings(workers=1)


def problem(id_, gold, verifier="math"):
    return Problem(id_, f"question {id_}", gold, "t", verifier)


def test_golds_that_the_math_verifier_cannot_read_leave_every_split_with_their_rows_listed():
    task = TaskData(
        "t",
        train=(problem("a", r"\frac{1}{2}"), problem("b", "see figure"), problem("c", r"\frac{1}{")),
        dev=(problem("d", "$$"),),
        test=(problem("e", "12"), problem("f", "see figure")),
        origins={name: Origin(number, "file") for number, name in enumerate("abcdef", 1)},
    )
    left = drop_unreadable(task, SETTINGS)
    assert {name: [one.id for one in split] for name, split in left.splits.items()} == {
        "train": ["a"],
        "dev": [],
        "test": ["e"],
    }
    assert [(row.number, row.source) for row in left.bad_rows] == [(2, "file"), (3, "file"), (4, "file"), (6, "file")]
    assert all(row.reason.startswith("the answer ") for row in left.bad_rows)


def test_only_the_splits_that_are_used_are_read():
    task = TaskData("t", train=(problem("a", "see figure"),), dev=(), test=(problem("b", "see figure"),))
    left = drop_unreadable(task, SETTINGS, splits=("dev", "test"))
    assert (len(left.train), len(left.test)) == (1, 0)
    assert left.bad_rows[0] == DroppedRow(None, left.bad_rows[0].reason, "t")


def test_other_verifiers_need_no_reading_and_the_task_is_the_same_object():
    task = TaskData("t", train=(problem("a", "see figure", "exact"), problem("b", "5", "numeric")), dev=(), test=())
    assert drop_unreadable(task, SETTINGS) is task


def test_each_reason_is_told_by_the_problem_and_progress_reaches_its_end():
    said = []
    found = unreadable(
        [problem("a", "x+1"), problem("b", ""), problem("c", "")],
        SETTINGS,
        on_progress=lambda *seen: said.append(seen),
    )
    assert found.keys() == {"b", "c"}
    # two different golds
    assert said == [("reading golds", 0, 2), ("reading golds", 2, 2)]


def test_an_answer_is_judged_as_a_model_would_give_it():
    pairs = [(problem("a", r"\frac{1}{2}"), "0.5"), (problem("b", "7", "numeric"), "8")]
    for style in ("tags", "boxed"):
        assert [verdict.outcome for verdict in judge_golds(pairs, SETTINGS, style)] == ["correct", "wrong"]
