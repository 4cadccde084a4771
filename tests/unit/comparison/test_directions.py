import pytest

from agon.ablation.labels import wish_named
from agon.comparison.collect import collect
from agon.comparison.compare import compare
from agon.comparison.directions import chosen_direction, unmeasured_choices
from agon.comparison.variants import variant_of

NOTE = "direction b-a chosen on 200 development problems (a-b 0.215, b-a 0.220)"
A_B = {"protocol": "cascade", "direction": "a-b"}
B_A = {"protocol": "cascade", "direction": "b-a"}


def chosen_of(run, label):
    measured = collect([run]).measured
    (item,) = [item for item in measured if item.label == label]
    return chosen_direction(measured, variant_of(item))


def notes_of(*runs, protocols=None):
    collected = collect(runs)
    return unmeasured_choices("coop", collected.trainings, collected.measured, protocols=protocols)


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ({"chosen": True}, "a-b"),
        ({"chosen": False}, "b-a"),
        ({"notes": ["direction a-b as asked for", NOTE]}, "b-a"),
        ({"notes": ["direction a-b as asked for"]}, None),
    ],
)
def test_a_result_says_in_a_field_or_in_a_note_what_was_chosen(fake, tmp_path, said, chosen):
    fake.evaluate(fake.run(tmp_path / "run"), "c", "10", **A_B, **said)
    assert chosen_of(tmp_path / "run", "c") == chosen


def test_what_was_chosen_with_a_doubled_cap_is_another_choice(fake, tmp_path):
    run = fake.run(tmp_path / "run")
    fake.evaluate(run, "c", "10", **A_B, chosen=True)
    fake.evaluate(run, "long", "10", **B_A, notes=[NOTE], doubled_cap=True)
    assert (chosen_of(run, "c"), chosen_of(run, "long")) == ("a-b", "b-a")


NOTED_DROP = "measured with task.withholding=drop, trained with mark"


def test_what_was_chosen_with_other_prompts_than_in_training_says_nothing_of_the_ordinary_choice(fake, tmp_path):
    run = fake.run(tmp_path / "run")
    fake.evaluate(run, "c", "10", **A_B)
    fake.evaluate(run, "dropped", "10", **B_A, notes=[NOTE, NOTED_DROP])
    assert (chosen_of(run, "c"), chosen_of(run, "dropped")) == (None, "b-a")
    fake.evaluate(run, "c", "10", **A_B, chosen=True)
    fake.evaluate(run, "dropped", "10", **B_A, notes=[NOTED_DROP])
    assert (chosen_of(run, "c"), chosen_of(run, "dropped")) == ("a-b", None)


def test_what_to_run_asks_as_the_result_was_asked(fake, tmp_path):
    run = fake.run(tmp_path / "run")
    fake.evaluate(run, "c", "10", **A_B, chosen=False, notes=[NOTED_DROP])
    assert notes_of(run) == [
        "coop, seed 0: cascade (withholding-drop) was measured in direction a-b alone, but development problems chose b-a: "
        f"run `agon eval {run} --evaluations cascade-b-a --set task.withholding=drop`"
    ]


def test_a_chosen_direction_that_was_not_measured_is_said_in_a_line_with_what_to_run(fake, tmp_path):
    run = fake.run(tmp_path / "run", "cooperative", seed=3)
    fake.evaluate(run, "c", "10", **A_B, chosen=False, notes=[NOTE])
    assert notes_of(run) == [
        "coop, seed 3: cascade was measured in direction a-b alone, but development problems chose b-a: "
        f"run `agon eval {run} --evaluations cascade-b-a`"
    ]
    assert notes_of(run, protocols=("single",)) == []
    # as that command would file it: it says nothing of a choice itself
    fake.evaluate(run, "t-test-cascade-b-a", "11", **B_A)
    assert notes_of(run) == []


def test_trainings_in_the_same_case_share_a_line(fake, tmp_path):
    runs = [fake.run(tmp_path / f"s{seed}", seed=seed) for seed in (0, 1, 2)]
    for run, chosen in zip(runs, (False, True, False), strict=True):
        fake.evaluate(run, "c", "10", **A_B, chosen=chosen)
    (note,) = notes_of(*runs)
    assert note.startswith("coop, seeds 0, 2: cascade was measured in direction a-b alone")
    assert note.endswith(f"run `agon eval {runs[0]} --evaluations cascade-b-a`, and likewise {runs[2]}")


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"protocol": "selective", "lineup": {"doubt": "likelihood"}}, "selective-b-a"),
        (
            {
                "protocol": "selective",
                "lineup": {"doubt": "agreement"},
                "players": {"drafters": ["A", "A"], "challenger": "B"},
            },
            "selective-b-a-k2-agreement",
        ),
        ({"protocol": "cascade", "doubled_cap": True}, "cascade-b-a-doubled-cap"),
    ],
)
def test_what_to_run_is_an_evaluation_that_agon_eval_knows(fake, tmp_path, more, label):
    run = fake.run(tmp_path / "run")
    fake.evaluate(run, "c", "10", direction="a-b", chosen=False, **more)
    (note,) = notes_of(run)
    assert note.endswith(f" --evaluations {label}`")
    assert wish_named(label).direction == "b-a"


def test_what_to_run_names_the_task_the_samples_and_the_split_where_they_are_not_the_runs_own(fake, tmp_path):
    run = fake.run(tmp_path / "run", task__name="countdown-lite", evaluation__samples=1)
    two = {"p": [True, False], "q": [True, True]}
    fake.evaluate(run, "c", two, **A_B, chosen=False, task="gsm8k", split="dev")
    (note,) = notes_of(run)
    assert f"run `agon eval {run} --task gsm8k --evaluations cascade-b-a --samples 2 --split dev`" in note


def test_an_arm_in_the_other_direction_is_marked_and_its_contrasts_are_left_out(fake, tmp_path):
    runs = {name: fake.run(tmp_path / name, name) for name in ("grpo", "shared-hidden", "cooperative", "agon")}
    for name in ("grpo", "shared-hidden"):
        fake.evaluate(runs[name], "s", "1100", method=name)
    for name in ("cooperative", "agon"):
        fake.evaluate(runs[name], "c", "1110", method=name, **A_B, chosen=name == "agon")
    comparison = compare(list(runs.values()))
    rows = {row.id: row.is_unchosen for row in comparison.rows}
    assert [name for name in rows if rows[name]] == ["cooperative:cascade:a-b"]
    headlines = {arm.name: arm.headline for arm in comparison.arms}
    assert (headlines["cooperative"], headlines["agon"]) == ("cooperative:cascade:a-b", "agon:cascade:chosen")
    assert all(cell.row is not None for cell in comparison.panel_2x2.cells)
    assert comparison.panel_2x2.effects == ()
    told, left_out = comparison.notes
    assert told.startswith("cooperative, seed 0: cascade was measured in direction a-b alone")
    assert left_out == (
        "contrasts of competition and exchange are left out: the chosen direction was not measured of cooperative"
    )
