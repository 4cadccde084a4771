import pytest

from agon.comparison.checks import comparable
from agon.comparison.collect import collect
from agon.errors import DataError


def two_runs(fake, tmp_path, **second):
    runs = [
        fake.run(tmp_path / name, name, data=second.pop("data", "d0") if name == "grpo" else "d0")
        for name in ("agon", "grpo")
    ]
    fake.evaluate(runs[0], "single", "1010")
    fake.evaluate(runs[1], "single", second.pop("correct", "0110"), method="grpo", **second)
    return runs


def test_what_is_measured_alike_is_described_once(fake, tmp_path):
    subject, measured, notes = comparable(collect(two_runs(fake, tmp_path)).measured)
    assert (subject.task, subject.split, subject.n, subject.evaluation_seed) == ("countdown-lite", "test", 4, 1234)
    assert (subject.temperature, subject.top_p, subject.data_hash) == (0.6, 0.95, "d0")
    assert len(measured) == 2
    assert notes == []


def test_other_problems_are_refused_and_the_run_that_differs_is_named(fake, tmp_path):
    agon, grpo = two_runs(fake, tmp_path, correct={"p000": [True], "q": [False]})
    message = (
        rf"{grpo} \(single\) was measured on other problems than {agon} \(single\): 2 and 4, 1 of them shared; "
        r"evaluate it on the same task and split, with the same evaluation.max_test, or leave it out"
    )
    with pytest.raises(DataError, match=message):
        comparable(collect([agon, grpo]).measured)


def test_an_evaluation_on_other_problems_is_left_out_where_its_run_has_one_that_fits(fake, tmp_path):
    runs = two_runs(fake, tmp_path)
    fake.evaluate(runs[1], "few", "01", method="grpo")
    _, measured, notes = comparable(collect(runs).measured)
    assert [item.label for item in measured] == ["single", "single"]
    assert notes == [f"left out, for other problems than the rest: {runs[1]} (few)"]


def test_another_temperature_is_refused_with_the_settings_to_take(fake, tmp_path):
    runs = two_runs(fake, tmp_path, temperature=1.0)
    with pytest.raises(
        DataError, match=r"temperature 1.0, .*--set evaluation.temperature=0.6 --set evaluation.top_p=0.95"
    ):
        comparable(collect(runs).measured)


def test_another_evaluation_seed_and_other_data_are_said(fake, tmp_path):
    runs = two_runs(fake, tmp_path, seed=7, data="d1")
    subject, _, notes = comparable(collect(runs).measured)
    assert (subject.evaluation_seed, subject.data_hash) == (None, None)
    assert notes == [
        f"another evaluation seed than most (pairing is by problem only): {runs[1]} (single)",
        f"another the task's data than most (trainings differ in it): {runs[1]}",
    ]


def test_the_test_split_is_taken_where_there_are_two_and_another_on_demand(fake, tmp_path):
    runs = two_runs(fake, tmp_path)
    for run in runs:
        fake.evaluate(run, "dev", "11", split="dev", method=run.name)
    subject, _, notes = comparable(collect(runs).measured)
    assert (subject.split, subject.n) == ("test", 4)
    assert notes == ["split test; evaluations of split dev are left out (choose with --split)"]
    assert comparable(collect(runs).measured, split="dev").subject.n == 2


def test_two_tasks_need_a_choice_unless_only_one_was_measured_everywhere(fake, tmp_path):
    runs = two_runs(fake, tmp_path)
    fake.evaluate(runs[0], "other", "1", task="gsm8k")
    subject, _, notes = comparable(collect(runs).measured)
    assert subject.task == "countdown-lite"
    assert notes == ["task countdown-lite; evaluations of task gsm8k are left out (choose with --task)"]
    fake.evaluate(runs[1], "other", "1", task="gsm8k", method="grpo")
    with pytest.raises(DataError, match=r"several tasks \(gsm8k, countdown-lite\): choose with --task"):
        comparable(collect(runs).measured)
    assert comparable(collect(runs).measured, task="gsm8k").subject.n == 1
    with pytest.raises(DataError, match="no evaluation of task 'math': there is gsm8k, countdown-lite"):
        comparable(collect(runs).measured, task="math")


def test_unequal_budgets_and_unfinished_runs_and_failed_checks_are_said(fake, tmp_path):
    one = fake.run(tmp_path / "agon", metrics=[{"rollouts_per_problem": 16}] * 2)
    two = fake.run(tmp_path / "grpo", "grpo", steps=9, metrics=[{"rollouts_per_problem": 8}] * 2)
    fake.evaluate(one, "single", "10")
    fake.evaluate(two, "single", "11", method="grpo", outcomes={"correct": 1, "error": 1})
    assert comparable(collect([one, two]).measured).notes == [
        f"another rollouts per problem than most (budgets are not equal): {two}",
        f"{two} has done 2 of 9 steps",
        f"{two} (single): the checker failed on 1 answers, which count as wrong",
    ]


def test_caps_other_than_the_trainings_are_said_and_doubled_ones_are_not(fake, tmp_path):
    # Trained with drafts of at most 44 tokens.
    runs = [fake.run(tmp_path / "agon", rollout__max_challenge_tokens=30), fake.run(tmp_path / "grpo", "grpo")]
    fake.evaluate(runs[0], "longer", "1111", protocol="moa", caps={"draft": 60, "challenge": None})
    fake.evaluate(runs[0], "same", "1111", protocol="majority", caps={"draft": 44, "challenge": 30})
    fake.evaluate(runs[0], "shorter", "1111", protocol="cascade", caps={"draft": 44, "challenge": 9})
    fake.evaluate(runs[1], "doubled", "1111", method="grpo", caps={"draft": 88, "challenge": None}, doubled_cap=True)
    assert comparable(collect(runs).measured).notes == [
        f"{runs[0]} (longer) was measured with other caps than its training's: drafts 60 tokens in place of 44",
        f"{runs[0]} (shorter) was measured with other caps than its training's: challenges 9 tokens in place of 30",
    ]


def test_other_prompts_than_the_trainings_are_said_once_for_all_that_were_asked_so(fake, tmp_path):
    runs = two_runs(fake, tmp_path)
    told = "measured with task.withholding=drop, trained with mark"
    for label in ("x", "y", "z"):
        fake.evaluate(runs[0], label, "1111", protocol="moa", notes=[told])
    fake.evaluate(
        runs[1], "w", "1111", method="grpo", notes=["measured with task.wording=plain-v3, trained with plain-v1", told]
    )
    assert comparable(collect(runs).measured).notes == [
        "measured otherwise than trained (task.withholding=drop in place of mark), and in rows of their own: "
        f"{runs[0]} (x), {runs[0]} (y), {runs[0]} (z)",
        "measured otherwise than trained (task.wording=plain-v3 in place of plain-v1, task.withholding=drop in place of mark), "
        f"and in rows of their own: {runs[1]} (w)",
    ]
