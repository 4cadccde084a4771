"""What the checks find on public data sets: counts by kind, told once and kept."""

import os
from pathlib import Path

import pytest

from agon.config import Settings, TaskSettings
from agon.datacheck.check import check_data

SHARED = Path(os.environ.get("AGON_DATA", "no folder is named"))
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="AGON_DATA names no folder")


def file(name):
    return str(SHARED / f"{name}.jsonl.gz")


def check(name, path, test_path=None, against=None):
    task = TaskSettings(name=name, path=file(path), test_path=test_path and file(test_path))
    sets = {against: TaskSettings(name=against, path=file(against))} if against else {}
    return check_data(Settings(task=task), against=sets)


def rows(report, *kinds):
    return sorted(one.at.row for one in report.findings if one.kind in kinds)


def test_gsm8k_is_clean():
    report = check("gsm8k", "gsm8k_train", "gsm8k_test")
    assert report.num_unique == report.num_rows == 7473 + 1319
    assert report.is_clean
    # problems of one template with other numbers are told, and are no copies
    assert report.counts.keys() <= {"similar"}


def test_the_faults_of_math_are_two_blank_answers_three_repeats_and_copies_between_splits():
    report = check("math", "math_train_answers_only", "math500")
    assert rows(report, "unusable", "unreadable", "misjudged") == [5342, 5344]
    assert rows(report, "duplicate", "conflict") == [960, 1228, 7379]
    assert report.counts["near-leak"] > 0
    assert not rows(report, "leak")


def test_a_sixth_of_deepmath_can_be_guessed_and_two_of_its_rows_are_repeats():
    report = check("deepmath", "deepmath_5k", against="math500")
    assert report.num_guessable == 880
    assert rows(report, "duplicate", "conflict", "unusable", "unreadable", "misjudged") == [2712, 4414]
    assert report.against == {"math500": 500}


@pytest.mark.parametrize(("name", "path"), [("svamp", "svamp"), ("math500", "math500")])
def test_small_sets_are_clean(name, path):
    report = check(name, path)
    assert report.is_clean
    assert report.num_unique == report.num_rows
