from __future__ import annotations

import contextlib
import io
import json

import pytest

from agon.ablation.quickstart import AGON, COOPERATIVE, DOUBLED, GRPO, ROWS
from agon.runs import read_json


@pytest.fixture(scope="module")
def small(small):
    """Two steps a cell, measured on few problems."""
    return [*small, "--set", "train.steps=2", "--set", "evaluation.max_test=4", "--set", "evaluation.max_dev=4"]


@pytest.fixture(scope="module")
def quickstart(agon, tmp_path_factory, small):
    """A whole quickstart, and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "quickstart"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert agon("train", "--out", out, *small) == 0
    return out, printed.getvalue()


def test_every_cell_is_an_ordinary_finished_run(quickstart):
    out, _ = quickstart
    for name in (GRPO, DOUBLED, COOPERATIVE, AGON):
        rows = [json.loads(line) for line in (out / name / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == [0, 1]
        # the same budget for every method: 2N = 8 rollouts a problem
        assert {row["rollouts_per_problem"] for row in rows} == {8}
        assert (out / name / "checkpoints" / "step-000002" / "A" / "adapter_model.safetensors").exists()


def test_the_doubled_cap_is_the_only_difference_of_the_equal_token_rival(quickstart):
    out, _ = quickstart
    one, two = (json.loads((out / name / "config.json").read_text()) for name in (GRPO, DOUBLED))
    assert two["rollout"].pop("max_draft_tokens") == 2 * one["rollout"].pop("max_draft_tokens")
    assert two.pop("checksum") != one.pop("checksum")
    assert one == two


def test_all_rows_measure_the_same_problems(quickstart):
    out, _ = quickstart
    results = {path.stem: read_json(path) for path in out.rglob("evaluations/*.json")}
    assert set(results) == {row.label for row in ROWS}
    problems = {label: [row["id"] for row in result["per_problem"]] for label, result in results.items()}
    assert len({tuple(ids) for ids in problems.values()}) == 1
    assert {result["interval"]["kind"] for result in results.values()} == {"clopper-pearson"}
    for label in ("cooperative", "agon"):
        assert any("development problems" in note for note in results[label]["notes"])


def test_the_table_shows_every_row_with_n_and_interval_and_the_report_is_written(quickstart):
    out, printed = quickstart
    for row in ROWS:
        assert row.title in printed
    assert "95% interval" in printed
    assert (out / "report.html").stat().st_size > 10_000


def test_the_parent_folder_stands_for_the_agon_run(agon, quickstart, capsys):
    out, _ = quickstart
    assert agon("solve", out, "12 7 5 = 24", "--json") == 0
    assert json.loads(capsys.readouterr().out)["challenger"]["adapter"] == "B"


def test_resuming_a_finished_quickstart_trains_nothing_again(agon, quickstart, small):
    out, _ = quickstart
    before = {path: path.stat().st_mtime_ns for path in out.rglob("metrics.jsonl")}
    assert agon("train", "--resume", "--out", out, *small) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("metrics.jsonl")} == before


def test_resuming_a_quickstart_with_other_settings_is_refused(agon, quickstart, small, capsys):
    out, _ = quickstart
    assert agon("train", "--resume", "--out", out, *small, "--set", "train.seed=9") == 2
    assert "train.seed (0 -> 9)" in capsys.readouterr().err
