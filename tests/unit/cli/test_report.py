import subprocess
import sys

import pytest

from agon.cli.main import main
from agon.runs import RunFolder, read_json, write_evaluation


def make_run(path, method, right, *, split="test"):
    """A run with one step and one evaluation in which the first `right` of 20 problems are solved."""
    settings = {"train": {"method": method, "seed": 0, "steps": 1}, "rollout": {"max_draft_tokens": 44}}
    with RunFolder.create(path, settings=settings, hashes={"data": "d"}) as run:
        run.write_metrics({"step": 0, "draft/accuracy": 0.5, "rollouts_per_problem": 16.0})
    result = {
        "task": "countdown-lite",
        "protocol": "single",
        "direction": None,
        "method": method,
        "players": {"drafters": ["A"], "challenger": None},
        "split": split,
        "n": 20,
        "samples": 1,
        "accuracy": right / 20,
        "interval": {"low": 0.1, "high": 0.9, "level": 0.95, "kind": "clopper-pearson", "unit": "problem"},
        "tokens": {"draft": 20.0, "summary_prefill": 0.0, "challenge": 0.0, "total": 20.0, "prefill_total": 10.0},
        "truncated_share": 0.0,
        "seed": 1234,
        "temperature": 0.6,
        "top_p": 0.95,
        "per_problem": [{"id": f"p{at}", "correct": [at < right]} for at in range(20)],
    }
    write_evaluation(path, "single-a", result)
    return path


@pytest.fixture
def runs(tmp_path):
    return [make_run(tmp_path / name, name, right) for name, right in (("grpo", 4), ("cooperative", 16))]


def page(tmp_path):
    return (tmp_path / "r.html").read_text()


def test_several_runs_are_compared_in_the_report(runs, tmp_path, capsys):
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().err == ""
    assert '<section id="table">' in page(tmp_path)
    # The rival is cooperative exchange: .2 - .8.
    assert "−0.600" in page(tmp_path)


def test_a_direction_that_was_not_chosen_is_marked_on_the_page_and_told_what_to_run(runs, tmp_path):
    result = read_json(runs[1] / "evaluations" / "single-a.json")
    (runs[1] / "evaluations" / "single-a.json").unlink()
    pair = {"protocol": "cascade", "direction": "a-b", "players": {"drafters": ["A"], "challenger": "B"}}
    write_evaluation(runs[1], "cascade-a-b", {**result, **pair, "chosen": False})
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html")]) == 0
    told = page(tmp_path)
    # its line, its interval, the title of the differences to it
    assert told.count("A drafts, B challenges, not the chosen direction") >= 3
    # the head of the differences to it, and the line through the intervals
    assert told.count("cooperative (not the chosen direction)<") == 2
    assert f"run `agon eval {runs[1]} --evaluations cascade-b-a`" in told


def test_a_rival_can_be_chosen(runs, tmp_path):
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html"), "--against", "grpo"]) == 0
    assert "+0.600" in page(tmp_path)
    assert "−0.600" not in page(tmp_path)


def test_one_run_has_its_ordinary_report_and_takes_no_rival(runs, tmp_path, capsys):
    assert main(["report", str(runs[0]), "--out", str(tmp_path / "r.html")]) == 0
    assert '<section id="table">' not in page(tmp_path)
    assert main(["report", str(runs[0]), "--against", "grpo"]) != 0
    assert "there is one run: give several" in capsys.readouterr().err
    assert not (runs[0] / "report.html").exists()


def test_runs_that_cannot_be_compared_have_a_page_and_the_reason_is_said(runs, tmp_path, capsys):
    result = read_json(runs[1] / "evaluations" / "single-a.json")
    write_evaluation(runs[1], "single-a", {**result, "task": "gsm8k"})
    words = ["report", *map(str, runs), "--out", str(tmp_path / "r.html")]
    assert main(words) == 0
    err = capsys.readouterr().err
    assert err.startswith("agon: the report compares nothing: the runs were measured on several tasks")
    assert '<section id="results">' in page(tmp_path)
    assert '<section id="table">' not in page(tmp_path)
    # Who asks for a comparison is told that there is none.
    assert main([*words, "--against", "grpo"]) != 0


def test_a_comparison_in_a_report_loads_no_torch(runs, tmp_path):
    code = f"import sys; from agon.cli.main import main; main({['report', *map(str, runs), '--out', str(tmp_path / 'r.html')]!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=60).returncode == 0
