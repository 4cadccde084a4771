from agon.datacheck.findings import FAULTS, NOTES, DataReport, Finding, Place


def report(*kinds):
    findings = tuple(Finding(kind, "why", Place(1, "f", "text"), None) for kind in kinds)
    return DataReport("t", ("f",), 4, 4, 4, {"train": 4}, 0, 1, ("yes", 3), 9, findings=findings)


def test_faults_make_a_data_set_unfit_and_notes_do_not():
    assert not set(FAULTS) & set(NOTES)
    assert all(not report(kind).is_clean for kind in FAULTS)
    assert all(report(kind).is_clean for kind in NOTES)


def test_counts_are_by_kind_faults_first():
    assert list(report("similar", "leak", "leak").counts.items()) == [("leak", 2), ("similar", 1)]


def test_json_holds_shares_of_the_unique_problems_and_every_place():
    document = report("leak").to_json()
    assert document["guessable"] == {"count": 1, "share": 0.25}
    assert document["top_answer"] == {"answer": "yes", "count": 3, "share": 0.75}
    assert document["findings"] == [
        {"kind": "leak", "reason": "why", "at": {"row": 1, "source": "f", "text": "text"}, "other": None}
    ]
