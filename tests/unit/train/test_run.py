import pytest

from agon.recipe import settings_from
from agon.train.run import _doubts, changed_settings


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


def test_alarms_may_change_when_a_run_goes_on_and_what_a_step_computes_may_not():
    saved = settings_from({"alarms": {"all_truncated": "stop"}})
    assert changed_settings(saved, settings_from({"alarms": {"all_truncated": "warn", "kl_every": 0}})) == []
    assert changed_settings(saved, settings_from({"train": {"loss": "gspo"}})) == ["train.loss ('dapo' -> 'gspo')"]


def test_what_a_run_that_was_out_of_memory_is_told_to_lower_may_change_when_it_goes_on():
    saved = settings_from({})
    lower = {"train": {"tokens_per_microbatch": 4096, "gradient_checkpointing": True}, "rollout": {"max_rows": 8}}
    assert changed_settings(saved, settings_from(lower)) == []
    assert changed_settings(saved, settings_from(lower), of_memory=True) == [
        "rollout.max_rows (256 -> 8)",
        "train.tokens_per_microbatch (None -> 4096)",
        "train.gradient_checkpointing ('auto' -> True)",
    ]
    assert changed_settings(saved, settings_from({"train": {"loss": "gspo"}}), of_memory=True) == []
