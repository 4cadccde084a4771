from agon.report.notes import Note, NotedRow, notes_once


def test_a_note_is_said_once_with_its_rows_by_owner_in_the_order_of_the_rows():
    rows = [
        NotedRow("GRPO", "single-a", ["rows left out", "few problems"]),
        NotedRow("Agon", "single-a", ["rows left out"]),
        NotedRow("GRPO", "majority", ["rows left out", "rows left out"]),
        NotedRow(None, "agon", ["few problems"]),
        NotedRow(None, "other", []),
    ]
    assert notes_once(rows) == [
        Note("rows left out", "GRPO: single-a, majority; Agon: single-a"),
        Note("few problems", "GRPO: single-a; agon"),
    ]
