from __future__ import annotations

import gzip
import json

import pytest

from agon.audit.judge import Judged, judge_all
from agon.audit.pairs import check_of, disagreements, read_pairs, summarize
from agon.config import VerifierSettings
from agon.errors import ConfigError, DataError
from agon.records import Verdict
from agon.tasks.reader import open_file


def file_of(tmp_path, rows):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return open_file(str(path), key="--pairs")


def pairs_of(tmp_path, rows, only=None):
    return read_pairs(file_of(tmp_path, rows), verifier="math", only=only or {})


def judge(pairs):
    checks = [check_of(pair, "stated") for pair in pairs.rows]
    return judge_all(checks, VerifierSettings(workers=1), lambda done, total: None)


@pytest.mark.parametrize(
    ("reading", "answers"),
    [("stated", ["7", "8", "9"]), ("boxed", [None, "8", None]), ("tags", [None, None, "9"])],
)
def test_the_answer_of_a_whole_output_is_found_as_asked(tmp_path, reading, answers):
    texts = ["The answer is 7.", r"so \boxed{8}", "<answer>9</answer>"]
    rows = [{"gold": "7", "completion": text, "equal": True} for text in texts]
    checks = [check_of(pair, reading) for pair in pairs_of(tmp_path, rows).rows]
    found = judge_all(checks, VerifierSettings(workers=1), lambda done, total: None)
    assert [one.verdict.answer for one in found] == answers


def labelled(tmp_path, *outcomes):
    """Rows of (equal, outcome, fields), judged as said."""
    rows = [{"gold": "1", "pred": "1", "equal": equal, **fields} for equal, _, fields in outcomes]
    pairs = pairs_of(tmp_path, rows).rows
    return [
        Judged(check_of(pair, "stated"), Verdict(outcome, 0.0), seconds=pair.number / 10)
        for pair, (_, outcome, _) in zip(pairs, outcomes, strict=True)
    ]


def test_answers_completions_and_their_labels_are_read_and_judged(tmp_path):
    rows = [
        {"gold": "1/2", "pred": "0.5", "equal": True},
        {"gold": "3", "pred": r"\boxed{3}", "equal": True},
        {"gold": 3, "completion": r"first 4, then \boxed{4}", "equal": False},
        {"gold": "7", "completion": "it is 7, without a box", "equal": False},
        {"gold": "5", "pred": r"so \boxed{5}", "kind": "completion", "equal": True},
    ]
    judged = judge(pairs_of(tmp_path, rows))
    assert [one.verdict.outcome for one in judged] == ["correct", "correct", "wrong", "unparsed", "correct"]
    assert [one.verdict.answer for one in judged] == ["0.5", "3", "4", None, "5"]
    assert summarize(judged)["agree"] == 5


def test_the_gold_of_a_whole_solution_is_read_as_that_of_a_task(tmp_path):
    rows = [
        {"gold": "6 * 7 = 42\n#### 42", "pred": "42", "equal": True},
        {"gold": r"so \boxed{42}.", "pred": "42", "equal": True},
    ]
    assert [pair.problem.gold for pair in pairs_of(tmp_path, rows).rows] == ["42", "42"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{broken", "not JSON"),
        ("[1]", "a JSON list"),
        ({"gold": "1", "pred": "1"}, "'equal' is None"),
        ({"gold": "1", "pred": "1", "equal": "yes"}, "'equal' is 'yes', where true or false is wanted"),
        ({"gold": "1", "pred": "1", "equal": "1"}, "'equal' is '1', where true or false is wanted"),
        ({"gold": "1", "pred": "1", "equal": 1}, "'equal' is 1, where true or false is wanted"),
        ({"gold": "1", "pred": "1", "completion": "1", "equal": True}, "both 'pred' and 'completion'"),
        ({"gold": "1", "equal": True}, "neither 'pred' nor 'completion'"),
        ({"gold": "1", "pred": True, "equal": True}, "'pred' is True, where text or a number is wanted"),
        ({"gold": "1", "pred": [1], "equal": True}, "'pred' is [1], where text or a number is wanted"),
        ({"gold": "1", "completion": 1, "equal": True}, "'completion' is 1, where text is wanted"),
        ({"gold": "", "pred": "1", "equal": True}, "'gold'"),
        ({"gold": None, "pred": "1", "equal": True}, "'gold'"),
        ({"gold": r"\frac{1", "pred": "1", "equal": True}, "'gold'"),
    ],
)
def test_a_row_that_cannot_be_judged_is_named_by_its_number(tmp_path, row, reason):
    good = {"gold": "1", "pred": "1", "equal": True}
    pairs = pairs_of(tmp_path, [good, row, good])
    assert [pair.number for pair in pairs.rows] == [1, 3]
    ((number, said),) = pairs.bad
    assert number == 2
    assert reason in said


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["pairs.jsonl", "it is empty"]),
        (["{broken"], ["pairs.jsonl", "JSON"]),
    ],
)
def test_a_file_without_a_row_to_judge_is_refused(tmp_path, rows, words):
    with pytest.raises(DataError) as caught:
        pairs_of(tmp_path, rows)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"Gold": "1", "pred": "1", "equal": True}, ["no field 'gold'", "did you mean 'Gold'"]),
        ({"gold": "1", "predicted": "1", "equal": True}, ["no field 'pred'", "did you mean 'predicted'"]),
    ],
)
def test_a_column_that_is_not_there_is_named_with_the_nearest(tmp_path, row, words):
    with pytest.raises(ConfigError) as caught:
        pairs_of(tmp_path, [row])
    for word in words:
        assert word in str(caught.value)


def test_an_answer_may_be_a_number_as_a_gold_may(tmp_path):
    rows = [{"gold": 7, "pred": 7.0, "equal": True}, {"gold": "1/2", "pred": 0.5, "equal": True}]
    assert [pair.text for pair in pairs_of(tmp_path, rows).rows] == ["7", "0.5"]


def test_pairs_may_stand_in_a_csv_file(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('gold,pred,completion,equal\n1/2,0.5,,true\n7,,"so \\boxed{8}",False\n3,,,FALSE\n')
    pairs = read_pairs(open_file(str(path), key="--pairs"), verifier="math", only={})
    assert not pairs.bad
    assert [(pair.text, pair.is_whole, pair.is_equal) for pair in pairs.rows] == [
        ("0.5", False, True),
        (r"so \boxed{8}", True, False),
        ("", False, False),
    ]


def test_rows_are_kept_by_kind_tier_and_tag(tmp_path):
    row = {"gold": "1", "pred": "1", "equal": True}
    rows = [
        {**row, "tier": "core", "tags": ["number"]},
        {**row, "tier": "hard", "tags": ["number", "tiny"]},
        {**row, "tier": "core", "kind": "completion"},
        row,
    ]

    def numbers(**only):
        pairs = pairs_of(tmp_path, rows, only)
        assert len(pairs.rows) + pairs.num_left_out == 4
        return [pair.number for pair in pairs.rows]

    assert numbers(tier=["core"]) == [1, 3]
    assert numbers(tier=["core", "hard"]) == [1, 2, 3]
    assert numbers(tag=["tiny"]) == [2]
    assert numbers(kind=["answer"]) == [1, 2, 4]
    assert numbers(tier=["core"], kind=["completion"]) == [3]
    with pytest.raises(DataError, match="no row has the names"):
        numbers(tier=["soft"])


def test_agreement_is_counted_in_all_and_by_group(tmp_path):
    judged = labelled(
        tmp_path,
        (True, "correct", {"tier": "core", "tags": ["a", "b"]}),
        (True, "wrong", {"tier": "core", "tags": ["b"]}),
        (False, "correct", {"tier": "hard", "kind": "odd"}),
        (False, "timeout", {"tier": "hard"}),
        (True, "timeout", {}),
        (False, "error", {}),
        (False, "unparsed", {}),
    )
    summary = summarize(judged)
    # right: the 1st, the 4th (a time-out is not correct, and is labelled different) and the 7th
    counts = {"n": 7, "agree": 3, "false_positives": 1, "false_negatives": 2, "timeouts": 2, "errors": 1}
    assert {name: summary[name] for name in counts} == counts
    assert summary["outcomes"] == {"correct": 2, "wrong": 1, "unparsed": 1, "timeout": 2, "error": 1}
    assert summary["slowest"][:2] == [
        {"number": 7, "seconds": 0.7, "verdict": "unparsed"},
        {"number": 6, "seconds": 0.6, "verdict": "error"},
    ]
    assert len(summary["slowest"]) == 5
    assert summary["agreement"] == pytest.approx(3 / 7)
    # Clopper-Pearson of 3 in 7, from its table
    assert summary["interval"]["low"] == pytest.approx(0.0990, abs=1e-4)
    assert summary["interval"]["high"] == pytest.approx(0.8159, abs=1e-4)
    core = {"n": 2, "agree": 1, "false_positives": 0, "false_negatives": 1, "timeouts": 0, "errors": 0}
    assert summary["by_tier"]["core"] == core
    assert summary["by_tag"] == {"a": core | {"n": 1, "false_negatives": 0}, "b": core}
    assert summary["by_kind"]["odd"]["false_positives"] == 1
    assert summary["by_kind"]["answer"]["n"] == 6


def test_disagreements_begin_with_what_was_wrongly_called_correct(tmp_path):
    judged = labelled(
        tmp_path,
        (False, "error", {}),
        (True, "unparsed", {}),
        (True, "correct", {}),
        (False, "correct", {}),
        (True, "timeout", {}),
    )
    found = [(item.fault, item.judged.check.source.number) for item in disagreements(judged)]
    assert found == [("false positive", 4), ("false negative", 2), ("false negative", 5), ("error", 1)]


def test_compressed_rows_and_long_lines_are_read(tmp_path):
    path = tmp_path / "pairs.jsonl.gz"
    rows = [{"gold": "1", "pred": "9" * 3_000_000, "equal": False}, {"gold": "1", "pred": "1", "equal": True}]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    judged = judge(read_pairs(open_file(str(path), key="--pairs"), verifier="math", only={}))
    assert [one.verdict.outcome for one in judged] == ["unparsed", "correct"]
