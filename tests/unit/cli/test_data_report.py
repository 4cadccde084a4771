from agon.cli.data_report import print_data_report
from agon.datacheck.findings import DataReport, Finding, Place


def report(*findings, **changes):
    values = {
        "task": "custom",
        "sources": ("f.jsonl",),
        "num_rows": 1000,
        "num_problems": 1000,
        "num_unique": 10,
        "splits": {"train": 8, "dev": 1, "test": 1},
        "num_filtered": 0,
        "num_guessable": 1,
        "top_answer": ("7", 4),
        "longest": 12,
    }
    return DataReport(**(values | changes), findings=findings)


def shown(capsys, made, most=5):
    print_data_report(made, most=most)
    return capsys.readouterr().out.splitlines()


def test_a_clean_report_says_what_was_counted_and_that_it_is_clean(capsys):
    assert shown(capsys, report()) == [
        "custom: f.jsonl",
        "10 unique of 1,000 problems in 1,000 rows; 8 train, 1 dev, 1 test",
        "most frequent answer: 7 (40.0%); guessable (yes/no): 10.0%",
        "longest question: 12 characters",
        "",
        "clean",
    ]


def test_of_many_findings_the_first_are_shown_with_both_texts(capsys):
    found = [Finding("leak", f"as row {n}", Place(n, "f", f"here {n}"), Place(n, "g", f"there {n}")) for n in range(4)]
    lines = shown(capsys, report(*found), most=2)
    assert (
        "FAULT leak: 4 problems that also stand in a held-out split or in an evaluation set, in whatever spelling"
        in lines
    )
    assert lines[lines.index("  row 1 of f: as row 1") + 1 :][:3] == [
        "      here 1",
        "      there 1",
        "  and 2 more (all with --json)",
    ]
    assert lines[-1] == "not clean: mend or drop the rows under FAULT"


def test_notes_alone_leave_a_data_set_clean(capsys):
    lines = shown(capsys, report(Finding("guessable", "the answer is 'yes'", Place(3, "f", "q\n\nr"))))
    assert "note guessable: 1 answers that can be guessed (yes, no, true, false)" in lines
    assert "      q r" in lines
    assert lines[-1] == "clean"


def test_a_dominant_answer_has_no_row_and_a_text_that_cannot_be_printed_is_escaped(capsys):
    lines = shown(capsys, report(Finding("dominant", "9 of 10 have \ud800", None)))
    assert "  9 of 10 have \\ud800" in lines


def test_a_reason_of_several_lines_is_one_line(capsys):
    reason = "the answer '7' is judged error: ValueError: first\nsecond\u2028third"
    lines = shown(capsys, report(Finding("misjudged", reason, Place(3, "f", "")), Finding("dominant", "a\nb", None)))
    assert "  row 3 of f: the answer '7' is judged error: ValueError: first second third" in lines
    assert "  a b" in lines
