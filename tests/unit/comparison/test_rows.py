import pytest

from agon.comparison.arms import plan_arms
from agon.comparison.collect import collect
from agon.comparison.rows import build_rows
from agon.stats import clopper_pearson, nested_interval


def rows_of(*paths, protocols=None):
    collected = collect(paths)
    built, notes = build_rows(plan_arms(collected), collected.measured, protocols=protocols, seed=1)
    return {item.row.id: item.row for item in built}, notes


def pair(fake, tmp_path):
    """Two seeds of a pair; one says its choice in a field, the other in a note."""
    runs = [fake.run(tmp_path / f"agon-s{seed}", seed=seed) for seed in (0, 1)]
    how = {"protocol": "cascade"}
    fake.evaluate(runs[0], "a-b", "1100", direction="a-b", chosen=False, **how)
    fake.evaluate(runs[0], "b-a", "1110", direction="b-a", chosen=True, **how)
    note = "direction a-b chosen on 64 development problems (a-b 0.703, b-a 0.700)"
    fake.evaluate(runs[1], "a-b", "1111", direction="a-b", notes=[note], **how)
    fake.evaluate(runs[1], "b-a", "0111", direction="b-a", **how)
    return runs


def test_both_directions_their_mean_and_the_chosen_one_over_seeds(fake, tmp_path):
    rows, _ = rows_of(*pair(fake, tmp_path))
    assert list(rows) == [f"agon:cascade:{who}" for who in ("a-b", "b-a", "mean", "chosen")]
    found = {row.who: row.accuracy for row in rows.values()}
    # a-b: 2/4, 4/4. b-a: 3/4, 3/4. mean: 5/8, 7/8. chosen: b-a 3/4 for seed 0, a-b 4/4 for seed 1.
    assert found == {"a-b": 0.75, "b-a": 0.75, "mean": 0.75, "chosen": 0.875}
    # sample SD of two values is their difference / sqrt 2
    assert [row.seed_sd for row in rows.values()] == pytest.approx([0.5 / 2**0.5, 0.0, 0.25 / 2**0.5, 0.25 / 2**0.5])
    assert [row.direction for row in rows.values()] == ["a-b", "b-a", "mean", "chosen"]
    chosen = rows["agon:cascade:chosen"]
    assert (chosen.seeds, chosen.n, chosen.samples) == ((0, 1), 4, 1)
    assert [(item.seed, item.accuracy, item.direction) for item in chosen.per_seed] == [
        (0, 0.75, "b-a"),
        (1, 1.0, "a-b"),
    ]
    assert [item.labels for item in rows["agon:cascade:mean"].per_seed] == [("a-b", "b-a"), ("a-b", "b-a")]


def test_one_training_and_one_sample_have_the_exact_interval_and_several_the_nested_one(fake, tmp_path):
    runs = pair(fake, tmp_path)
    both, _ = rows_of(*runs)
    row = both["agon:cascade:a-b"]
    answers = [{f"p{i:03d}": [mark == "1"] for i, mark in enumerate(text)} for text in ("1100", "1111")]
    assert row.interval == nested_interval(answers, seed=1)
    assert (row.interval_kind, row.interval.unit) == ("nested-bootstrap", "problem and seed")
    assert row.per_seed[0].interval == clopper_pearson(2, 4)
    one, _ = rows_of(runs[0])
    assert one["agon:cascade:a-b"].interval == clopper_pearson(2, 4)
    assert one["agon:cascade:a-b"].seed_sd is None
    assert one["agon:cascade:mean"].interval_kind == "cluster-bootstrap"


def test_a_direction_that_nobody_chose_is_not_called_chosen(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    fake.evaluate(run, "x", "10", protocol="cascade", direction="a-b", notes=["direction a-b as asked for"])
    rows, _ = rows_of(run)
    assert list(rows) == ["agon:cascade:a-b"]
    assert not rows["agon:cascade:a-b"].is_unchosen


def test_a_direction_is_unchosen_where_every_known_choice_is_the_other(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", seed=seed) for seed in (0, 1, 2)]
    how = {"protocol": "cascade", "direction": "a-b"}
    fake.evaluate(runs[0], "c", "10", chosen=False, **how)
    fake.evaluate(runs[1], "c", "10", **how)
    fake.evaluate(runs[2], "c", "10", chosen=True, **how)
    # of seed 1 no choice is known
    assert rows_of(*runs[:2])[0]["agon:cascade:a-b"].is_unchosen
    assert not rows_of(*runs)[0]["agon:cascade:a-b"].is_unchosen
    assert not rows_of(*runs)[0]["agon:cascade:chosen"].is_unchosen


def test_a_control_takes_over_the_cascades_choice_and_a_protocol_of_its_own_does_not(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    for direction, marks in (("a-b", "10"), ("b-a", "11")):
        for protocol, chosen in (("cascade", direction == "b-a"), ("selective", direction == "a-b"), ("placebo", None)):
            fake.evaluate(run, f"{protocol}-{direction}", marks, protocol=protocol, direction=direction, chosen=chosen)
    rows, _ = rows_of(run)
    assert rows["agon:cascade:chosen"].accuracy == 1.0
    assert rows["agon:placebo:chosen"].accuracy == 1.0
    assert rows["agon:selective:chosen"].accuracy == 0.5


def test_a_single_answer_of_each_adapter_has_a_mean_without_direction(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    fake.evaluate(run, "single-a", "1100")
    fake.evaluate(run, "single-b", "1000", players={"drafters": ["B"], "challenger": None})
    rows, _ = rows_of(run)
    assert {name: row.accuracy for name, row in rows.items()} == {
        "agon:single:a": 0.5,
        "agon:single:b": 0.25,
        "agon:single:mean": 0.375,
    }
    assert rows["agon:single:mean"].direction is None


def test_rates_are_pooled_over_the_matches_they_are_shares_of(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", seed=seed) for seed in (0, 1)]
    for run, rate, count in zip(runs, (0.5, 1 / 3), (10, 30), strict=True):
        fake.evaluate(
            run,
            "c",
            "10",
            protocol="cascade",
            direction="a-b",
            conversion=rate,
            regression=rate,
            copy_rate=0.1,
            intervals={"conversion": {"n": count}},
        )
    row = rows_of(*runs)[0]["agon:cascade:a-b"]
    # (5 + 10) of 40; of the regression nobody says how many, so that it is the mean of 1/2 and 1/3
    assert (row.conversion, row.counted) == (pytest.approx(0.375), {"conversion": 40})
    assert row.regression == pytest.approx(5 / 12)
    assert (row.copy, row.leak, row.blind_second) == (pytest.approx(0.1), None, None)


def test_tokens_are_means_and_prompts_are_what_was_read_beside_summaries(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", seed=seed) for seed in (0, 1)]
    for run, drafts in zip(runs, (20.0, 30.0), strict=True):
        tokens = {
            "draft": drafts,
            "summary_prefill": 12.0,
            "challenge": 10.0,
            "total": drafts + 10,
            "prefill_total": 40.0,
        }
        fake.evaluate(run, "c", "10", protocol="cascade", direction="a-b", tokens=tokens, latency_s=drafts / 10)
    row = rows_of(*runs)[0]["agon:cascade:a-b"]
    ledger = row.tokens
    assert (ledger.draft, ledger.challenge, ledger.total) == (25.0, 10.0, 35.0)
    assert (ledger.summary_prefill, ledger.prompt_prefill, ledger.prefill_total) == (12.0, 28.0, 40.0)
    assert row.latency_s == 2.5


def test_two_measurements_of_the_same_thing_are_told_apart_by_label(fake, tmp_path):
    fake.parent(tmp_path / "q", children=["agon"], default="agon")
    fake.evaluate(fake.run(tmp_path / "q/agon"), "single-a", "11")
    fake.evaluate(tmp_path / "q", "single", "00", method=None)
    fake.evaluate(tmp_path / "q", "single-again", "10", method=None)
    rows, _ = rows_of(tmp_path / "q")
    assert list(rows) == ["base:single:base", "base:single:base:single-again", "agon:single:a"]
    assert rows["base:single:base:single-again"].label == "single-again"
    assert rows["base:single:base"].seeds == ()
    assert [item.seed for item in rows["base:single:base"].per_seed] == [None]


def test_a_measurement_with_other_caps_than_in_training_takes_no_place_among_seeds_for_its_short_label(fake, tmp_path):
    runs = [fake.run(tmp_path / f"agon-s{seed}", seed=seed) for seed in (0, 1)]  # drafts of at most 44 tokens
    for run in runs:
        fake.evaluate(run, "single-a", "1100", caps={"draft": 44, "challenge": None})
    fake.evaluate(runs[0], "long", "1111", caps={"draft": 60, "challenge": None})
    rows, _ = rows_of(*runs)
    assert {name: (row.seeds, row.accuracy) for name, row in rows.items()} == {
        "agon:single:a": ((0, 1), 0.5),
        "agon:single:a:long": ((0,), 1.0),
    }


# As trained, what asks otherwise, and what an older result says of itself.
TRAINED = {"task__wording": "plain-v1", "task__withholding": "mark", "task__answer_style": "boxed"}
AS_TRAINED = {"wording": "plain-v1", "withholding": "mark", "answer_style": "boxed"}
DROP = {"prompts": {**AS_TRAINED, "withholding": "drop"}}
NOTED_DROP = {"notes": ["measured with task.withholding=drop, trained with mark"]}


@pytest.mark.parametrize("how", [DROP, NOTED_DROP])
def test_a_direction_with_other_prompts_than_in_training_has_no_mean_with_an_ordinary_one(fake, tmp_path, how):
    run = fake.run(tmp_path / "agon", **TRAINED)
    fake.evaluate(run, "c", "1100", protocol="cascade", direction="a-b", prompts=AS_TRAINED)
    fake.evaluate(run, "d", "1111", protocol="cascade", direction="b-a", **how)
    rows, _ = rows_of(run)
    assert {name: (row.accuracy, row.label, row.changed) for name, row in rows.items()} == {
        "agon:cascade:a-b": (0.5, "", {}),
        "agon:cascade:b-a:withholding-drop": (1.0, "withholding-drop", {"withholding": "drop"}),
    }


def test_seeds_with_the_same_other_prompts_are_one_row_and_no_seeds_of_the_ordinary_one(fake, tmp_path):
    runs = [fake.run(tmp_path / f"agon-s{seed}", seed=seed, **TRAINED) for seed in (0, 1, 2)]
    # an older result without a note was asked as in training
    fake.evaluate(runs[0], "single-a", "1100")
    fake.evaluate(runs[1], "single-a", "1111", prompts={**AS_TRAINED, "wording": "plain-v3", "withholding": "drop"})
    fake.evaluate(runs[2], "single-a", "1110", prompts={**AS_TRAINED, "wording": "plain-v3", "withholding": "drop"})
    rows, _ = rows_of(*runs)
    assert {name: (row.seeds, row.accuracy) for name, row in rows.items()} == {
        "agon:single:a": ((0,), 0.5),
        "agon:single:a:wording-plain-v3-withholding-drop": ((1, 2), 0.875),
    }


@pytest.mark.parametrize(
    ("how", "name", "value"),
    [
        ({"caps": {"draft": 8, "challenge": 8, "summary": 1}}, "max_summary_tokens", "1"),
        ({"checkpoint": 1}, "checkpoint", "1"),
        ({"notes": ["the adapters of step-000002 were rounded to bfloat16 when it was packed"]}, "rounded", "bfloat16"),
    ],
)
def test_other_summary_caps_earlier_checkpoints_and_rounded_adapters_are_rows_of_their_own(
    fake, tmp_path, how, name, value
):
    runs = [fake.run(tmp_path / f"agon-s{seed}", seed=seed, rollout__max_summary_tokens=384) for seed in (0, 1)]
    same = {"caps": {"draft": 8, "challenge": 8, "summary": 384}}
    fake.evaluate(runs[0], "c", "1100", protocol="cascade", direction="a-b", **same)
    fake.evaluate(runs[1], "c", "1111", protocol="cascade", direction="a-b", **how)
    rows, _ = rows_of(*runs)
    assert {row_id: (row.seeds, row.accuracy, row.changed) for row_id, row in rows.items()} == {
        "agon:cascade:a-b": ((0,), 0.5, {}),
        f"agon:cascade:a-b:{name}-{value}": ((1,), 1.0, {name: value}),
    }


def test_two_measurements_with_the_same_other_prompts_are_told_apart_by_label(fake, tmp_path):
    run = fake.run(tmp_path / "agon", **TRAINED)
    for label in ("x", "again", "single-a-withholding-drop"):
        fake.evaluate(run, label, "1100", **DROP)
    assert list(rows_of(run)[0]) == [
        "agon:single:a:withholding-drop",
        "agon:single:a:withholding-drop-again",
        "agon:single:a:single-a-withholding-drop",
    ]


def test_programs_as_answers_are_no_other_prompt_but_go_with_their_task(fake, tmp_path):
    run = fake.run(tmp_path / "agon", **TRAINED)
    fake.evaluate(run, "single-a", "1100", prompts={**AS_TRAINED, "answer_style": "code"})
    fake.evaluate(run, "b", "1100", protocol="moa", notes=["measured with task.answer_style=code, trained with boxed"])
    assert list(rows_of(run)[0]) == ["agon:single:a", "agon:moa:a"]


def test_the_base_asked_otherwise_than_the_run_beside_it_has_a_row_of_its_own(fake, tmp_path):
    run = fake.run(tmp_path / "agon", **TRAINED)
    fake.evaluate(run, "base", "1100", method=None, prompts=AS_TRAINED)
    fake.evaluate(run, "d", "1111", method=None, **DROP, **NOTED_DROP)
    assert list(rows_of(run)[0]) == ["base:single:base", "base:single:base:withholding-drop"]


def test_a_doubled_cap_is_no_further_seed_of_the_plain_one(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", "grpo", seed=seed) for seed in (0, 1)]
    fake.evaluate(runs[0], "single-a", "1100", method="grpo")
    # an older result, and one that says it
    fake.evaluate(runs[0], "single-a-doubled-cap", "1110", method="grpo")
    fake.evaluate(runs[1], "mine", "1111", method="grpo", doubled_cap=True)
    rows, _ = rows_of(*runs)
    assert {name: (row.seeds, row.accuracy, row.has_doubled_cap, row.label) for name, row in rows.items()} == {
        "grpo:single:a": ((0,), 0.5, False, ""),
        "grpo:single-doubled-cap:a": ((0, 1), 0.875, True, ""),
    }


def test_two_measurements_with_a_doubled_cap_are_told_apart_by_label(fake, tmp_path):
    run = fake.run(tmp_path / "grpo", "grpo")
    for label in ("long", "longer"):
        fake.evaluate(run, label, "10", method="grpo", doubled_cap=True)
    rows, _ = rows_of(run)
    assert list(rows) == ["grpo:single-doubled-cap:a", "grpo:single-doubled-cap:a:longer"]


def test_drafts_layers_and_doubt_name_a_row(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    two = {"drafters": ["A", "A"], "challenger": None}
    fake.evaluate(run, "majority", "10", protocol="majority", players=two)
    fake.evaluate(run, "moa", "10", protocol="moa", players={**two, "challenger": "A"}, lineup={"layers": 2})
    fake.evaluate(run, "sel", "11", protocol="selective", direction="a-b", lineup={"layers": 1, "doubt": "agreement"})
    blind = {"drafters": ["A", "B"], "challenger": None}
    fake.evaluate(run, "blind", "11", protocol="blind-second", direction="a-b", players=blind)
    # one draft of each adapter is another thing than two of one
    fake.evaluate(run, "likeliest", "11", protocol="likeliest", players=blind)
    fake.evaluate(run, "own", "10", protocol="likeliest", players=two)
    rows, _ = rows_of(run)
    assert list(rows) == [
        "agon:moa-k2:a:l2",
        "agon:majority-k2:a",
        "agon:likeliest:a+b",
        "agon:likeliest-k2:a",
        "agon:blind-second:a-b",
        "agon:selective:a-b:agreement",
    ]
    assert rows["agon:majority-k2:a"].drafts == 2


def test_a_base_measured_in_two_folders_counts_once_and_that_is_said(fake, tmp_path):
    runs = [fake.run(tmp_path / name, name) for name in ("agon", "grpo")]
    for run in runs:
        fake.evaluate(run, "own", "11", method=run.name)
        fake.evaluate(run, "base", "10", method=None)
    rows, notes = rows_of(*runs)
    assert rows["base:single:base"].per_seed[0].run == str(runs[0])
    assert notes == [f"the base was measured more than once; left out: {runs[1]} (base)"]


def test_only_the_protocols_asked_for_have_rows(fake, tmp_path):
    run = fake.run(tmp_path / "agon")
    fake.evaluate(run, "s", "10")
    fake.evaluate(run, "c", "10", protocol="cascade", direction="a-b")
    assert list(rows_of(run, protocols=("single",))[0]) == ["agon:single:a"]
