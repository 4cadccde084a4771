import pytest

from agon.errors import RunError
from agon.runs import read_json, write_evaluation
from agon.runs.evaluations import evaluation_matches_path, matches_of


def test_a_result_knows_the_matches_it_was_counted_from(run, match):
    file = write_evaluation(run.path, "single", {"accuracy": 0.5}, [match])
    path = evaluation_matches_path(run.path, "single")
    assert matches_of(file, read_json(file)) == path
    path.unlink()
    assert matches_of(file, read_json(file)) is None


def test_an_old_result_is_not_shown_with_the_matches_of_a_new_one(run, match):
    file = write_evaluation(run.path, "single", {"accuracy": 0.5}, [match])
    old = file.read_bytes()
    write_evaluation(run.path, "single", {"accuracy": 0.75}, [match, match])
    # As if the process had been killed between the two files.
    file.write_bytes(old)
    with pytest.raises(RunError, match=r"single\.matches\.jsonl\.gz is not what single\.json was counted from"):
        matches_of(file, read_json(file))


def test_a_result_from_before_it_named_its_matches_is_shown_with_them(run, match):
    file = write_evaluation(run.path, "single", {"accuracy": 0.5}, [match])
    assert matches_of(file, {"accuracy": 0.5}) == evaluation_matches_path(run.path, "single")
