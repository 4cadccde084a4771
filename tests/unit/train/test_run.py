import pytest

from agon.recipe import settings_from
from agon.train.run import _doubts


@pytest.mark.parametrize(
    ("tree", "num_warnings"),
    [
        ({}, 0),
        ({"task": {"name": "gsm8k"}}, 1),
        ({"task": {"name": "custom", "path": "mine.jsonl"}}, 1),
        ({"task": {"name": "gsm8k"}, "model": {"base": "folder"}}, 0),
    ],
)
def test_the_embedded_base_is_doubted_on_any_task_but_its_own(tree, num_warnings):
    assert len(_doubts(settings_from(tree))) == num_warnings
