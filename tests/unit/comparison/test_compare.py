import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from agon.comparison import records
from agon.comparison.compare import compare
from agon.errors import ConfigError
from agon.runs import read_json


def quickstart(fake, tmp_path):
    """What the quickstart leaves: the base and four trainings, each measured once on four problems."""
    parent = tmp_path / "quickstart"
    fake.parent(parent, children=["grpo", "grpo-doubled-cap", "cooperative", "agon"], default="agon")
    fake.evaluate(parent, "zero-shot", "1000", method=None)
    fake.evaluate(fake.run(parent / "grpo", "grpo"), "grpo", "1100", method="grpo")
    cap = fake.run(parent / "grpo-doubled-cap", "grpo", rollout__max_draft_tokens=88)
    fake.evaluate(cap, "grpo-doubled-cap", "1111", method="grpo")
    note = "direction b-a chosen on 64 development problems (a-b 0.703, b-a 0.719)"
    for name, marks in (("cooperative", "1110"), ("agon", "0111")):
        fake.evaluate(
            fake.run(parent / name, name), name, marks, method=name, protocol="cascade", direction="b-a", notes=[note]
        )
    return parent


def test_a_quickstart_compares_its_arms_with_cooperative_and_the_doubled_cap(fake, tmp_path):
    comparison = compare([quickstart(fake, tmp_path)])
    assert [(arm.name, arm.headline) for arm in comparison.arms] == [
        ("base", "base:single:base"),
        ("grpo", "grpo:single:a"),
        ("grpo-doubled-cap", "grpo-doubled-cap:single:a"),
        ("cooperative", "cooperative:cascade:chosen"),
        ("agon", "agon:cascade:chosen"),
    ]
    assert [(test.first.split(":")[0], test.family) for test in comparison.tests] == [
        *((name, "against cooperative") for name in ("base", "grpo", "grpo-doubled-cap", "agon")),
        *((name, "against grpo-doubled-cap") for name in ("base", "grpo", "cooperative", "agon")),
    ]
    agon = comparison.tests[3]
    # 0111 against 1110: one problem won, one lost
    assert (agon.difference, agon.wins, agon.losses, agon.p, agon.p_holm) == (0.0, 1, 1, 1.0, 1.0)
    assert comparison.panel_2x2.cells[1].row is None
    assert comparison.notes == ()


def test_a_matrix_names_titles_groups_seeds_and_rivals(fake, tmp_path):
    arms = {"grpo": ("grpo", "baseline", {}), "w3": ("agon", "exchange", {"reward.conversion": 3.0})}
    matrix = fake.matrix(tmp_path / "m", arms, rivals=("grpo",))
    for name, (method, _, changes) in arms.items():
        for seed in (0, 1):
            more = {key.replace(".", "__"): value for key, value in changes.items()}
            run = fake.run(matrix / f"cells/{name}-s{seed}", method, seed=seed, **more)
            fake.evaluate(run, "single-a", "1100" if name == "grpo" else "1110", method=method)
    fake.evaluate(matrix / "base", "single", "1000", method=None)
    comparison = compare([matrix])
    assert [(arm.name, arm.title, arm.group) for arm in comparison.arms[1:]] == [
        ("grpo", "Grpo", "baseline"),
        ("w3", "W3", "exchange"),
    ]
    assert [run.seed for run in comparison.arms[2].runs] == [0, 1]
    assert comparison.arms[2].rollouts_per_problem == 16.0
    assert {test.second for test in comparison.tests} == {"grpo:single:a"}
    assert [test.seeds for test in comparison.tests] == [(1, 2), (2, 2)]


def test_arms_that_share_their_runs_are_tested_once_and_that_is_said(fake, tmp_path):
    arms = {name: ("agon", "exchange", {}) for name in ("agon", "w1")} | {"grpo": ("grpo", "baseline", {})}
    matrix = fake.matrix(tmp_path / "m", arms, seeds=(0,), rivals=("grpo", "w1"))
    index = read_json(matrix / "matrix.json")
    index["cells"][1]["run"] = "cells/agon-s0"
    (matrix / "matrix.json").write_text(json.dumps(index))
    for name in ("agon", "grpo"):
        fake.evaluate(fake.run(matrix / f"cells/{name}-s0", name), "single-a", "10", method=name)
    comparison = compare([matrix])
    assert [(test.first, test.second) for test in comparison.tests] == [
        ("agon:single:a", "grpo:single:a"),
        ("grpo:single:a", "w1:single:a"),
    ]
    assert comparison.notes == ("w1 stands for the same runs as agon",)
    assert {row.arm for row in comparison.rows} == {"agon", "w1", "grpo"}


def test_an_arm_that_shares_some_runs_of_another_is_not_tested_beside_it_or_against_it(fake, tmp_path):
    one = fake.matrix(tmp_path / "m", {name: ("agon", "exchange", {}) for name in ("w1", "agon", "grpo")}, seeds=(0,))
    index = read_json(one / "matrix.json")
    index["cells"][0]["run"] = "cells/agon-s0"
    (one / "matrix.json").write_text(json.dumps(index))
    more = fake.matrix(tmp_path / "n", {"agon": ("agon", "exchange", {})}, seeds=(1,))
    for run, seed in ((one / "cells/agon-s0", 0), (one / "cells/grpo-s0", 0), (more / "cells/agon-s1", 1)):
        fake.evaluate(fake.run(run, seed=seed), "single-a", "10")
    comparison = compare([one, more], against=["agon", "w1"])
    assert [(test.first, test.second) for test in comparison.tests] == [
        ("grpo:single:a", "agon:single:a"),
        ("grpo:single:a", "w1:single:a"),
    ]
    assert comparison.notes == ("w1 stands for 1 of the 2 runs of agon",)


def test_the_trainings_that_are_missing_from_the_row_an_arm_is_tested_by_are_said(fake, tmp_path):
    matrix = fake.matrix(tmp_path / "m", {"agon": ("agon", "exchange", {})}, seeds=(0, 1))
    for seed, more in enumerate(({"chosen": True}, {})):
        run = fake.run(matrix / f"cells/agon-s{seed}", seed=seed)
        fake.evaluate(run, "cascade-a-b", "10", protocol="cascade", direction="a-b", **more)
    comparison = compare([matrix])
    assert comparison.arms[0].headline == "agon:cascade:chosen"
    assert comparison.notes == (
        "agon:cascade:chosen holds 1 of 2 measured trainings, and is what agon is tested by; "
        f"without: {matrix / 'cells/agon-s1'}",
    )


def test_without_a_known_rival_the_first_arm_is_the_rival(fake, tmp_path):
    runs = [fake.run(tmp_path / name, name) for name in ("margin", "agon")]
    for run in runs:
        fake.evaluate(run, "single", "10", method=run.name)
    (test,) = compare(runs).tests
    assert (test.first, test.second) == ("agon:single:a", "margin:single:a")


def test_any_arm_or_row_can_be_the_rival(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    comparison = compare([parent], against=["grpo", "base:single:base"])
    assert {test.family for test in comparison.tests} == {"against grpo", "against base:single:base"}
    with pytest.raises(ConfigError, match=r"--against 'gpro' is neither an arm nor a row .* arms: base, grpo, "):
        compare([parent], against=["gpro"])


def test_the_mean_of_both_directions_can_be_the_rival(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    fake.evaluate(parent / "agon", "agon-a-b", "0001", method="agon", protocol="cascade", direction="a-b")
    comparison = compare([parent], against=["agon:cascade:mean"])
    assert {test.second for test in comparison.tests} == {"agon:cascade:mean"}
    grpo, own = comparison.tests[1], comparison.tests[-1]
    # the mean of 0111 and 0001: 0, .5, .5, 1. Of grpo 1100: .5 - .5; of its chosen direction: .75 - .5
    assert (grpo.first, grpo.difference) == ("grpo:single:a", 0.0)
    assert (own.first, own.difference) == ("agon:cascade:chosen", 0.25)


def test_a_rival_that_is_no_row_of_its_arm_is_refused_with_those_that_are(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    # agon was measured in one direction: there is no mean.
    with pytest.raises(ConfigError, match=r"agon; rows of agon: agon:cascade:b-a, agon:cascade:chosen$"):
        compare([parent], against=["agon:cascade:mean"])
    with pytest.raises(ConfigError, match=r"rows of grpo-doubled-cap: grpo-doubled-cap:single:a$"):
        compare([parent], against=["grpo-doubled-cap:cascade"])
    with pytest.raises(ConfigError, match=r"or a row of one \(ARM:PROTOCOL:WHO\), such as base:single:base$"):
        compare([parent], against=["gpro:single:a"])


def test_a_rival_that_no_other_arm_can_be_tested_against_is_refused(fake, tmp_path):
    run = fake.run(tmp_path / "agon", "agon")
    fake.evaluate(run, "single-a", "10")
    assert compare([run]).tests == ()
    with pytest.raises(ConfigError, match=r"^--against 'agon:single:a' tests nothing: no other arm is measured here$"):
        compare([run], against=["agon:single:a"])


def test_a_protocol_can_be_asked_for(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    comparison = compare([parent], protocols=["cascade"])
    assert {row.protocol for row in comparison.rows} == {"cascade"}
    assert [arm.headline for arm in comparison.arms if arm.headline] == [
        "cooperative:cascade:chosen",
        "agon:cascade:chosen",
    ]
    with pytest.raises(ConfigError, match="nothing was measured in the protocol moa; measured: "):
        compare([parent], protocols=["moa"])


def test_a_self_refiner_stands_by_its_self_cascade_and_grpo_by_one_pass(fake, tmp_path):
    learned = [{"draft/accuracy": 0.5, "challenge/accuracy": 0.5}] * 2
    runs = [fake.run(tmp_path / "self-refine", "self-refine", metrics=learned), fake.run(tmp_path / "grpo", "grpo")]
    for run in runs:
        fake.evaluate(run, "single-a", "10", method=run.name)
        fake.evaluate(run, "self-cascade-a", "11", method=run.name, protocol="self-cascade")
    assert [arm.headline for arm in compare(runs).arms] == ["self-refine:self-cascade:a", "grpo:single:a"]


def test_what_a_doubled_cap_gave_stands_for_an_arm_only_where_nothing_else_was_measured(fake, tmp_path):
    runs = [fake.run(tmp_path / name, name) for name in ("grpo", "rft")]
    for run in runs:
        fake.evaluate(run, "s", "11", method=run.name, doubled_cap=True)
    fake.evaluate(runs[0], "m", "10", method="grpo", protocol="majority")
    assert [arm.headline for arm in compare(runs).arms] == ["grpo:majority:a", "rft:single-doubled-cap:a"]


def test_what_was_asked_otherwise_than_in_training_stands_for_an_arm_only_where_nothing_else_was_measured(
    fake, tmp_path
):
    runs = [fake.run(tmp_path / name, name) for name in ("agon", "grpo", "rft")]
    told = ["measured with task.withholding=drop, trained with mark"]
    fake.evaluate(runs[0], "c", "11", protocol="cascade", direction="a-b", notes=told)
    fake.evaluate(runs[0], "s", "10")
    fake.evaluate(runs[1], "s", "11", method="grpo", notes=told)
    fake.evaluate(runs[1], "long", "10", method="grpo", doubled_cap=True)
    fake.evaluate(runs[2], "s", "11", method="rft", notes=told)
    assert [arm.headline for arm in compare(runs).arms] == [
        "agon:single:a",
        "grpo:single-doubled-cap:a",
        "rft:single:a:withholding-drop",
    ]


def test_a_pair_that_read_answers_stands_by_reading_them(fake, tmp_path):
    run = fake.run(tmp_path / "answer-visible", "answer-visible")
    for protocol in ("cascade", "answer-visible"):
        fake.evaluate(run, protocol, "10", method=run.name, protocol=protocol, direction="a-b", chosen=True)
    assert compare([run]).arms[0].headline == "answer-visible:answer-visible:chosen"


def test_what_has_not_begun_or_was_not_measured_is_said(fake, tmp_path):
    parent = tmp_path / "q"
    fake.parent(parent, children=["grpo", "agon", "cooperative"], default="agon")
    fake.evaluate(fake.run(parent / "grpo", "grpo"), "s", "10", method="grpo")
    fake.run(parent / "agon")
    assert compare([parent]).notes == (
        f"{parent / 'cooperative'} has not begun: it is missing here",
        f"{parent / 'agon'} has no evaluation: run `agon eval {parent / 'agon'}`",
    )


def test_the_tree_is_plain_json_and_the_same_every_time(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    first, second = (json.dumps(compare([parent]).to_json(), allow_nan=False) for _ in range(2))
    assert first == second
    assert json.loads(first)["format_version"] == 1


def test_the_example_that_reports_are_tested_with_has_the_trees_fields():
    example = json.loads((Path(__file__).parent / "example.json").read_text())
    assert set(example) == {item.name for item in fields(records.Comparison)}
    kinds = {
        "arms": records.Arm,
        "rows": records.Row,
        "tests": records.PairedTest,
        "init_panel": records.InitRow,
        "frontier": records.FrontierPoint,
    }
    for part, kind in kinds.items():
        for item in example[part]:
            assert set(item) == {field.name for field in fields(kind)}, part


def test_a_comparison_loads_no_torch(fake, tmp_path):
    parent = quickstart(fake, tmp_path)
    code = (
        "import sys; from agon.cli.main import main; code = main(['compare', sys.argv[1]]);"
        "sys.exit(code or int(bool({'torch', 'transformers', 'peft'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(parent)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "against cooperative" in done.stdout
