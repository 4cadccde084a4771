import subprocess
import sys

import pytest

from agon.cli.main import main
from agon.runs import RunFolder, create_parent, read_json, write_evaluation


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
    # the head of the differences to it in the table
    assert "cooperative<small>cascade, A drafts, B challenges, not the chosen direction</small>" in told
    # the line through the intervals
    assert told.count("cooperative (not the chosen direction)<") == 1
    assert f"run `agon eval {runs[1]} --evaluations cascade-b-a`" in told


def test_a_rival_can_be_chosen(runs, tmp_path):
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html"), "--against", "grpo"]) == 0
    assert "+0.600" in page(tmp_path)
    assert "−0.600" not in page(tmp_path)


def add_cascades(run):
    """Measure both directions of a pair: 5 and 15 of 20 are right, .5 in the mean."""
    result = read_json(run / "evaluations" / "single-a.json")
    for way, right in (("a-b", 5), ("b-a", 15)):
        marks = [{"id": f"p{at}", "correct": [at < right]} for at in range(20)]
        players = dict(zip(("drafters", "challenger"), (["A"], "B") if way == "a-b" else (["B"], "A"), strict=True))
        more = {"protocol": "cascade", "direction": way, "players": players, "per_problem": marks}
        write_evaluation(run, f"cascade-{way}", {**result, **more, "chosen": way == "b-a", "accuracy": right / 20})


def test_the_mean_of_both_directions_can_be_the_rival_and_is_named_wherever_it_stands(runs, tmp_path):
    add_cascades(runs[1])
    words = ["report", *map(str, runs), "--out", str(tmp_path / "r.html"), "--against", "cooperative:cascade:mean"]
    assert main(words) == 0
    told = page(tmp_path)
    # 4 of 20 of grpo: .2 - .5
    assert "−0.300" in told
    assert "cooperative<small>cascade, both directions</small>" in told
    assert "Difference to cooperative: cascade, both directions" in told
    assert "cooperative (cascade, both directions)<" in told


def add_other_sets(runs):
    """Measure every run on another task, with a note of its own, and the first on development problems."""
    for run in runs:
        result = read_json(run / "evaluations" / "single-a.json")
        write_evaluation(run, "single-a", {**result, "notes": ["rows left out"]})
        write_evaluation(run, "other-a", {**result, "task": "gsm8k", "notes": ["a note on gsm8k"]})
    write_evaluation(runs[0], "single-a-dev", {**result, "split": "dev"})


def test_a_page_about_one_task_and_split_shows_no_evaluation_of_others_and_says_so(runs, tmp_path):
    add_other_sets(runs)
    task = read_json(runs[0] / "evaluations" / "single-a.json")["task"]
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html"), "--task", task]) == 0
    told = page(tmp_path)
    assert "rows come from different problem sets" not in told
    assert "other-a" not in told
    assert "a note on gsm8k" not in told
    assert "single-a-dev" not in told
    assert f"1 on {task} (dev)" in told
    assert "2 on gsm8k (test)" in told


def test_without_a_task_or_split_every_evaluation_is_shown_with_the_warning(runs, tmp_path):
    add_other_sets(runs)
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "r.html")]) == 0
    told = page(tmp_path)
    assert "rows come from different problem sets" in told
    assert "a note on gsm8k" in told
    assert "Left out of this page" not in told


def test_a_note_of_several_rows_is_said_once_with_their_runs(runs, tmp_path):
    add_other_sets(runs)
    assert (
        main(["report", *map(str, runs), "--out", str(tmp_path / "r.html"), "--split", "test", "--task", "gsm8k"]) == 0
    )
    told = page(tmp_path)
    # among the notes of all evaluations
    results = told[told.index('<section id="results">') :]
    assert results.count("a note on gsm8k") == 1
    assert "a note on gsm8k <small>grpo: other-a; cooperative: other-a</small>" in results


def test_where_one_of_the_runs_has_begun_what_to_compare_is_refused(runs, tmp_path, capsys):
    parent = tmp_path / "parent"
    create_parent(parent, children=["grpo", "cooperative"], default="grpo")
    runs[0].rename(parent / "grpo")
    assert main(["report", str(parent), "--task", "countdown-lite"]) != 0
    assert "there is one run: give several" in capsys.readouterr().err


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
