from dataclasses import replace

from agon.records import Problem
from agon.tasks.account import data_hash
from agon.tasks.data import TaskData

ADD = Problem("1", "Add.", "", "custom", "code", details={"tests": ["assert add(1, 2) == 3"]})


def hash_of(problem: Problem, *, is_test: bool = False) -> str:
    split = (problem,)
    return data_hash(TaskData("custom", train=() if is_test else split, dev=(), test=split if is_test else ()))


def test_the_same_problems_have_the_same_hash():
    assert hash_of(ADD) == hash_of(replace(ADD, details=dict(ADD.details)))


def test_what_an_answer_is_checked_against_is_part_of_the_hash():
    others = [replace(ADD, gold="3"), replace(ADD, details={"tests": ["assert add(1, 2) == 4"]}), replace(ADD, id="2")]
    assert len({hash_of(ADD), *map(hash_of, others), hash_of(ADD, is_test=True)}) == 5
