import pytest

from agon.config import Settings, TaskSettings
from agon.errors import RunError
from agon.evaluation.load import _changed_prompts, _changed_settings, find_checkpoint
from agon.train.run import checkpoint_to_resume


def test_a_step_that_was_never_saved_is_answered_with_those_that_were(tmp_path):
    for step in (2, 4):
        (tmp_path / "checkpoints" / f"step-00000{step}").mkdir(parents=True)
    with pytest.raises(RunError, match=r"has no checkpoint of step 40 \(there: 2, 4\): give one of these"):
        find_checkpoint(tmp_path, 40)


def test_a_step_whose_saving_was_interrupted_is_refused_as_damaged(tmp_path):
    (tmp_path / "checkpoints" / "step-000002").mkdir(parents=True)
    with pytest.raises(
        RunError, match=r"step-000002 cannot be used \(complete.json is missing.*leave --checkpoint out"
    ):
        find_checkpoint(tmp_path, 2)


def test_without_a_whole_checkpoint_the_remedy_is_that_of_what_there_is(tmp_path):
    with pytest.raises(RunError, match=r"no checkpoint to use: none was saved yet: continue training with --resume$"):
        find_checkpoint(tmp_path)
    (tmp_path / "checkpoints" / "step-000002").mkdir(parents=True)
    with pytest.raises(RunError) as refused:
        find_checkpoint(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} has no checkpoint to use: checkpoint step-000002 is damaged (complete.json is missing: saving it was interrupted); "
        f"restore one from a copy, or remove {tmp_path / 'checkpoints'} to train from the beginning with --resume"
    )
    with pytest.raises(RunError) as of_training:
        checkpoint_to_resume(tmp_path)
    assert str(of_training.value) == str(refused.value).replace("to use", "to go on from")


def test_a_run_with_results_and_no_checkpoint_is_not_trained_from_the_beginning(tmp_path):
    assert checkpoint_to_resume(tmp_path) == (None, ())
    (tmp_path / "evaluations").mkdir()
    assert checkpoint_to_resume(tmp_path) == (None, ())
    (tmp_path / "evaluations" / "single-a.json").write_text("{}")
    with pytest.raises(RunError) as refused:
        checkpoint_to_resume(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} holds results (single-a.json) and no checkpoint that they are of: restore its checkpoints from a copy, or move "
        f"{tmp_path / 'evaluations'} away to train from the beginning"
    )


def test_other_prompts_than_those_of_the_training_are_told_apart():
    task = TaskSettings(name="gsm8k", wording="plain-v3", withholding="drop", answer_style="boxed")
    assert _changed_prompts({"wording": "plain-v3", "withholding": "drop", "answer_style": "boxed"}, task) == {}
    # an older run says nothing of withholding
    assert _changed_prompts({"wording": "plain-v1", "answer_style": "boxed"}, task) == {
        "wording": ("plain-v3", "plain-v1"),
        "withholding": ("drop", "mark"),
    }


def test_other_caps_sampling_and_numbers_of_problems_than_the_runs_are_told_apart():
    settings = Settings.model_validate(
        {
            "model": {"dtype": "bfloat16"},
            "rollout": {"max_draft_tokens": 64, "max_challenge_tokens": 44},
            "evaluation": {"temperature": 0.0, "top_p": 0.95, "max_test": 16},
        }
    )
    trained = {"rollout": {"max_draft_tokens": 44, "max_challenge_tokens": 44}, "evaluation": {"temperature": 0.6}}
    assert _changed_settings(trained, settings) == {
        "dtype": "bfloat16",
        "max_draft_tokens": "64",
        "temperature": "0",
        "max_test": "16",
    }
    assert _changed_settings(settings.model_dump(), settings) == {}
