from agon.records import NAMED_TASKS, VERIFIERS
from agon.tasks.named import NAMED


def test_every_name_a_recipe_may_use_has_a_source():
    assert {*NAMED, "countdown-lite"} == set(NAMED_TASKS)
    assert {task.verifier for task in NAMED.values()} <= set(VERIFIERS)
