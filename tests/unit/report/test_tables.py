import json

import pytest

from agon.report.collect import collect
from agon.report.reader import fill_shelves
from agon.report.tables import (
    Axis,
    axis_of,
    budget_rows,
    exchange_rows,
    general_warnings,
    interval_legend,
    result_rows,
)
from agon.runs import read_json, write_evaluation


def edit(path, **changes):
    path.write_text(json.dumps({**read_json(path), **changes}))


def test_conversion_and_regression_agree_with_the_matches_they_are_shown_beside(parent):
    collected = collect([parent])
    rows = exchange_rows(collected.evaluations, fill_shelves(collected).evaluations)
    assert [row.label for row in rows] == ["moa-untrained", "grpo-self-cascade", "cooperative", "agon"]
    for row in rows:
        assert row.conversion.value == pytest.approx(row.conversion.hits / row.conversion.of)
        assert row.regression.value == pytest.approx(row.regression.hits / row.regression.of)
        assert row.counts.total == 20
        assert row.blind_second.value == 0.27
    assert rows[-1].bonus_effective > 0
    assert rows[0].bonus_effective is None


def test_a_result_with_a_doubled_cap_says_so_beside_its_protocol(parent):
    edit(parent / "grpo" / "evaluations" / "grpo.json", doubled_cap=True)
    shown = {row.label: row.protocol for row in result_rows(collect([parent]).evaluations)}
    assert (shown["grpo"], shown["grpo-doubled-cap"]) == ("single, doubled cap", "single")


def test_an_interval_of_a_rate_is_shown_where_the_evaluation_gives_one(parent):
    edit(parent / "agon" / "evaluations" / "agon.json", intervals={"conversion": {"low": 0.2, "high": 0.5}})
    collected = collect([parent])
    rows = exchange_rows(collected.evaluations, fill_shelves(collected).evaluations)
    assert rows[-1].conversion.interval == {"low": 0.2, "high": 0.5}
    assert rows[-1].regression.interval is None


def test_the_budget_is_what_the_metrics_and_settings_say(parent):
    rows = {row.name: row for row in budget_rows(collect([parent]).runs)}
    run = next(run for run in collect([parent]).runs if run.name == "agon")
    # 16 rollouts of 16 problems in 12 steps.
    assert (rows["agon"].rollouts_per_problem, rows["agon"].rollouts) == (16.0, 3072)
    assert rows["agon"].learned == sum(
        row["draft/tokens_learned"] + row["challenge/tokens_learned"] for row in run.metrics
    )
    assert rows["agon"].wall_s == pytest.approx(12 * 0.55)
    # Half of the rollouts are drafts, half challenges.
    mean = sum(row["draft/tokens_mean"] + row["challenge/tokens_mean"] for row in run.metrics) / 24
    assert rows["agon"].generated == pytest.approx(3072 * mean, abs=1)


def test_what_a_run_counted_itself_is_taken_from_it(parent):
    path = parent / "agon" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for step, row in enumerate(rows):
        row |= {"rollouts_generated": 500 * (step + 1), "draft/tokens_generated": 100, "challenge/tokens_generated": 50}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = next(row for row in budget_rows(collect([parent]).runs) if row.name == "agon")
    # 12 steps: 12 * 500 rollouts, 12 * 150 tokens.
    assert (row.rollouts, row.generated) == (6000, 1800)


def test_a_run_whose_problems_are_used_up_is_finished_before_its_last_step(parent):
    config = read_json(parent / "agon" / "config.json")
    config["train"]["steps"] = 50
    (parent / "agon" / "config.json").write_text(json.dumps(config))
    path = parent / "agon" / "metrics.jsonl"
    lines = path.read_text().splitlines()
    # 50 steps of 16 problems are 800.
    for consumed, is_finished in ((799, False), (800, True)):
        path.write_text(
            "\n".join([*lines[:-1], json.dumps({**json.loads(lines[-1]), "problems_consumed": consumed})]) + "\n"
        )
        assert next(row for row in budget_rows(collect([parent]).runs) if row.name == "agon").is_finished is is_finished


def test_nothing_forbids_comparing_rows_of_one_quickstart(parent):
    assert general_warnings(collect([parent])) == []


def test_other_problems_other_budgets_and_missing_or_unfinished_runs_are_told(parent, fake):
    edit(parent / "agon" / "evaluations" / "agon.json", per_problem=[{"id": "x", "correct": [True]}])
    edit(parent / "grpo" / "evaluations" / "grpo.json", split="dev")
    config = read_json(parent / "agon" / "config.json")
    config["train"]["steps"] = 50
    (parent / "agon" / "config.json").write_text(json.dumps(config))
    lines = (
        (parent / "cooperative" / "metrics.jsonl")
        .read_text()
        .replace('"rollouts_per_problem": 16.0', '"rollouts_per_problem": 32')
    )
    (parent / "cooperative" / "metrics.jsonl").write_text(lines)
    (parent / "grpo-doubled-cap" / "manifest.json").unlink()
    text = "\n".join(general_warnings(collect([parent])))
    assert "grpo-doubled-cap has not begun" in text
    assert "rows on countdown-lite, test were measured on different problems" in text
    assert "rows come from different problem sets (countdown-lite (test), countdown-lite (dev))" in text
    assert "different numbers of rollouts per problem and step (16, 32)" in text
    assert "agon has done 12 of 50 steps" in text


def test_many_missing_runs_are_one_warning(parent):
    for name in ("grpo", "agon", "cooperative"):
        (parent / name / "manifest.json").unlink()
    warnings = general_warnings(collect([parent]))
    assert "3 runs (cooperative, agon, grpo) have not begun: missing here" in warnings


def test_few_problems_truncation_and_checker_errors_are_warned_of(parent):
    edit(parent / "agon" / "evaluations" / "agon.json", truncated_share=0.38, outcomes={"correct": 10, "error": 3})
    notes = " ".join(result_rows(collect([parent]).evaluations)[-1].notes)
    assert "the checker failed on 3 answers" in notes
    assert "38 % of the stages were cut off at the token cap" in notes
    assert "only 20 problems" in notes


def test_intervals_of_several_kinds_are_each_told(parent, fake):
    result = read_json(parent / "agon" / "evaluations" / "agon.json")
    result |= {
        "label": "agon-4",
        "samples": 4,
        "interval": {**result["interval"], "kind": "cluster-bootstrap", "level": 0.9},
    }
    write_evaluation(parent / "agon", "agon-4", result)
    assert interval_legend(collect([parent]).evaluations) == [
        "95 % interval: clopper-pearson, resampling unit: problem",
        "90 % interval: cluster-bootstrap, resampling unit: problem",
    ]


def test_the_axis_holds_every_interval_in_tenths(parent):
    rows = result_rows(collect([parent]).evaluations)
    axis = axis_of(rows)
    assert all(0 <= axis.place(row.low) <= axis.place(row.accuracy) <= axis.place(row.high) <= 100 for row in rows)
    assert Axis(0.2, 0.7).place(0.45) == 50
    assert axis_of([]) == Axis(0.0, 1.0)
