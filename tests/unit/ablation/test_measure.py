from __future__ import annotations

import pytest

from agon.ablation.measure import check_labels, missing_evaluations, stamp_of_base, stamp_of_run
from agon.config import Settings
from agon.errors import ConfigError
from agon.recipe import settings_from
from agon.records import Problem
from agon.runs import RunFolder, write_evaluation
from agon.tasks.data import TaskData

STAMP = {"checkpoint": "step-000004", "sha256": "ab"}


def test_only_a_result_of_this_very_checkpoint_counts(tmp_path):
    write_evaluation(tmp_path, "of-it", {"measured": STAMP})
    write_evaluation(tmp_path, "of-another", {"measured": {**STAMP, "sha256": "cd"}})
    write_evaluation(tmp_path, "by-hand", {"accuracy": 0.5})
    write_evaluation(tmp_path, "damaged", {"measured": STAMP})
    (tmp_path / "evaluations" / "damaged.json").write_text('{"measured": {"chec')
    labels = ["of-it", "of-another", "by-hand", "damaged", "absent"]
    assert missing_evaluations(tmp_path, labels, STAMP) == ["of-another", "by-hand", "damaged", "absent"]


def test_what_was_measured_before_adapters_were_rounded_is_kept_and_not_the_other_way_round(tmp_path):
    rounded = {**STAMP, "rounded_to": "bfloat16"}
    write_evaluation(tmp_path, "of-the-exact", {"measured": STAMP})
    write_evaluation(tmp_path, "of-the-rounded", {"measured": rounded})
    write_evaluation(tmp_path, "of-another", {"measured": {**rounded, "sha256": "cd"}})
    labels = ["of-the-exact", "of-the-rounded", "of-another"]
    assert missing_evaluations(tmp_path, labels, rounded) == ["of-another"]
    assert missing_evaluations(tmp_path, labels, STAMP) == ["of-the-rounded", "of-another"]


def test_without_a_checkpoint_everything_is_missing(tmp_path):
    write_evaluation(tmp_path, "one", {"measured": None})
    assert missing_evaluations(tmp_path, ["one"], None) == ["one"]


def test_a_checkpoint_of_the_same_step_with_other_weights_is_another(tmp_path):
    stamps = []
    for number, weights in enumerate((b"1", b"2")):
        with RunFolder.create(tmp_path / str(number), settings={}) as run:
            run.write_metrics({"step": 0})
            with run.checkpoint(1) as folder:
                (folder / "weights").write_bytes(weights)
        stamps.append(stamp_of_run(run.path))
    assert {stamp["checkpoint"] for stamp in stamps} == {"step-000001"}
    assert stamps[0]["sha256"] != stamps[1]["sha256"]
    with RunFolder.create(tmp_path / "empty", settings={}) as run:
        assert stamp_of_run(run.path) is None


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"evaluation": {"samples": 2}}, False),
        ({"rollout": {"max_draft_tokens": 9}}, False),
        ({"train": {"seed": 5}}, True),
    ],
)
def test_the_base_is_measured_again_only_if_what_decides_it_has_changed(changes, is_same):
    assert (stamp_of_base(Settings()) == stamp_of_base(Settings.model_validate(changes))) == is_same


def test_a_refused_label_names_no_option_which_a_matrix_has_not():
    test = (Problem(id="p", question="q", gold="1", task="t", verifier="exact"),)
    task = TaskData(name="t", train=(), dev=(), test=test)
    settings = settings_from({"train": {"method": "agon"}}, source="test")
    with pytest.raises(ConfigError, match=r"^evaluation 'cascade': .* choose with -a-b or -b-a in its label, or raise"):
        check_labels(["cascade"], settings, task, is_trained=True)
