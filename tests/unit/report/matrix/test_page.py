import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from agon.report import page as page_module
from agon.report import write_report
from agon.report.collect import collect
from agon.report.matrix.arms import arms_of
from agon.report.matrix.tree import Tree
from agon.report.page import render
from agon.runs import read_json, write_evaluation

EXAMPLE = Path(__file__).parents[2] / "comparison" / "example.json"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*7 }}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Where the matrix of this file is made once."""
    return tmp_path_factory.mktemp("page") / "matrix"


@pytest.fixture
def tree(made, study, fake):
    """A matrix of four arms with two seeds, and its tree."""
    kept = made.parent / "tree.json"
    if not kept.exists():
        kept.write_text(json.dumps(study.matrix(fake, made, steps=6, n=8)))
    return json.loads(kept.read_text())


def page_of(made, tree):
    return render(collect([made]), tree)


def text_of(source):
    outside = re.sub(r"<(script|style)\b.*?</\1>", " ", source, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", outside))


def data_of(source, name):
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', source, re.S)
    return None if found is None else json.loads(found[1])


SECTIONS = ("overview", "table", "forest", "differences", "frontier")


def test_the_table_holds_both_directions_the_interval_the_tests_and_the_tokens(made, tree):
    rows = {row["id"]: row for row in tree["rows"]}
    own, first, second = (rows[f"agon:cascade:{who}"] for who in ("chosen", "a-b", "b-a"))
    test = next(test for test in tree["tests"] if test["first"] == own["id"])
    text = text_of(page_of(made, tree))

    def signed(value):
        return f"{value:+.3f}".replace("-", "−")

    interval, difference = own["interval"], test["interval"]
    assert (
        f"Agon exchange cascade chosen direction {own['accuracy']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}] 2 0.012 "
        f"{first['accuracy']:.3f} {second['accuracy']:.3f} {rows['agon:cascade:mean']['accuracy']:.3f} "
        f"{signed(test['difference'])} [{signed(difference['low'])}, {signed(difference['high'])}] p 0.31 (0.15), sees 0.070"
    ) in text
    tokens = own["tokens"]
    stages = ("draft", "summary_prefill", "challenge", "total", "prefill_total")
    assert " ".join(f"{tokens[stage]:.1f}" for stage in stages) + " 0.030 0.310 0.120" in text


def test_a_difference_that_holds_is_marked_without_colour(made, tree):
    tree["tests"][0] |= {"difference": -0.25, "p_holm": 0.002}
    tree["tests"][1] |= {"difference": 0.25, "p_holm": 0.05}
    text = text_of(page_of(made, tree))
    assert "▼ −0.250" in text
    assert "▲ +0.250" not in text
    assert "+0.250" in text


def test_arms_that_exchange_show_what_reading_did_against_the_blind_second_pass(made, tree):
    row = next(row for row in tree["rows"] if row["id"] == "agon:cascade:chosen")
    row |= {
        "conversion": 0.4,
        "blind_second": 0.27,
        "regression": 0.125,
        "counted": {"conversion": 40, "regression": 80},
    }
    text = text_of(page_of(made, tree))
    # .4 - .27
    assert "Agon cascade chosen direction 0.400 of 40 0.270 +0.130 0.125 of 80 0.040 0.018" in text


def test_the_page_has_its_parts_and_one_reader(made, tree):
    source = page_of(made, tree)
    for name in (*SECTIONS, "curves", "budget", "reader", "settings"):
        assert source.count(f'<section id="{name}">') == 1
        assert f'href="#{name}"' in source
    assert [run["shown"] for run in data_of(source, "curves-data")["runs"]] == [True] * 4
    assert all(run["bands"] for run in data_of(source, "curves-data")["runs"])


def test_every_evaluation_and_exchange_names_its_arm_and_seed(made, tree):
    source = page_of(made, tree)
    results = source[source.index('<section id="results">') : source.index('<section id="exchange">')]
    exchange = source[source.index('<section id="exchange">') : source.index('<section id="curves">')]
    for seed in (0, 1):
        for title in ("GRPO", "GRPO, doubled cap", "cooperative exchange", "Agon"):
            assert f'<th scope="row">single-a<small>{title}, seed {seed}</small></th>' in results
        assert f'<th scope="row">cascade-a-b<small>Agon, seed {seed}</small></th>' in exchange
    assert '<th scope="row">single<small>untrained base</small></th>' in results
    titles = [shelf["title"] for shelf in data_of(source, "reader-data")["shelves"]]
    assert "Agon, seed 1: cascade-b-a" in titles
    assert len(set(titles)) == len(titles)


def test_samples_of_several_rows_are_told_apart_by_arm(study, fake, tmp_path):
    tree = study.matrix(fake, tmp_path / "m", seeds=(0,), steps=2, n=4)
    for name in ("agon", "grpo"):
        run = tmp_path / "m" / "cells" / f"{name}-s0"
        result = read_json(run / "evaluations" / "single-a.json")
        write_evaluation(run, "single-a", {**result, "samples": 2, "pass_at_k": {"2": 0.75}})
    text = text_of(page_of(tmp_path / "m", tree))
    assert "GRPO: single-a: pass@2 0.750; Agon: single-a: pass@2 0.750." in text


def test_eight_runs_are_shown_one_by_one_too_and_nine_are_not(made, tree, monkeypatch):
    # Four arms with two seeds: eight.
    assert '<section id="results">' in page_of(made, tree)
    monkeypatch.setattr(page_module, "MAX_RUNS_IN_FULL", 7)
    source = page_of(made, tree)
    assert '<section id="results">' not in source
    text = text_of(source)
    assert "12 evaluations with stored matches are left out" in text
    assert len(data_of(source, "reader-data")["shelves"]) == 5
    assert "train.seed 0 (4) · 1 (4)" in text
    assert "Settings that all 8 trainings share" in text
    assert re.search(r"begun \d{4}-\S+ to \d{4}-", text)


def test_a_large_matrix_is_bounded_from_its_first_runs_on(made, tree, tmp_path, monkeypatch):
    begun = Path(shutil.copytree(made, tmp_path / "begun"))
    for run in sorted((begun / "cells").iterdir())[2:]:
        shutil.rmtree(run)
    assert '<section id="results">' in page_of(begun, tree)
    monkeypatch.setattr(page_module, "MAX_RUNS_IN_FULL", 7)
    source = page_of(begun, tree)
    assert '<section id="results">' not in source
    assert "6 runs (" in text_of(source)


def test_the_same_folder_and_tree_give_the_same_bytes_and_no_path(made, tree, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "MAX_RUNS_IN_FULL", 7)
    write_report([made], tmp_path / "a.html", comparison=tree)
    write_report([made], tmp_path / "b.html", comparison=json.loads(json.dumps(tree)))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert str(made.parent) not in (tmp_path / "a.html").read_text()


def test_names_and_notes_from_files_stay_text(made, tree):
    tree["arms"][3] |= {"title": HOSTILE, "settings": {HOSTILE: HOSTILE}, "group": HOSTILE}
    tree["notes"] = [HOSTILE]
    for row in tree["rows"]:
        row |= {"title": HOSTILE, "notes": [HOSTILE]}
    tree["rows"][0] |= {"protocol": HOSTILE, "who": HOSTILE}
    tree["subject"]["task"] = HOSTILE
    tree["tests"][0]["kind"] = HOSTILE
    source = page_of(made, tree)
    (script,) = re.findall(r"<script>(.*?)</script>", source, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in source
    # The page's own scripts: curves, frontier, reader, code.
    assert len(re.findall("<script", source)) == 4
    assert "<img" not in source
    assert not re.search(r"alert\(2\)> 49", source)
    assert data_of(source, "frontier-data")["points"][1]["short"].startswith("</script>")


def test_one_run_alone_has_the_ordinary_report(made, tree):
    run = made / "cells" / "agon-s0"
    assert render(collect([run]), tree) == render(collect([run]))
    assert '<section id="table">' not in render(collect([run]), tree)


def test_one_seed_has_no_bands_and_no_spread(study, fake, tmp_path):
    tree = study.matrix(fake, tmp_path / "one", seeds=(0,), steps=3, n=4)
    source = page_of(tmp_path / "one", tree)
    assert not any("bands" in run for run in data_of(source, "curves-data")["runs"])
    assert "0.012" not in text_of(source[source.index('<section id="table">') : source.index('<section id="forest">')])


def test_a_matrix_that_has_just_begun_has_a_page(made, tree):
    tree |= {"rows": [], "tests": [], "frontier": [], "arms": [{**arm, "headline": None} for arm in tree["arms"]]}
    source = page_of(made, tree)
    assert "Nothing has been evaluated yet" in text_of(source)
    for name in ("forest", "differences", "frontier", "panel", "init"):
        assert f'<section id="{name}">' not in source


def test_the_tree_that_a_comparison_makes_can_be_drawn(made):
    example = json.loads(EXAMPLE.read_text())
    source = page_of(made, example)
    text = text_of(source)
    assert source.count('<section id="panel">') == source.count('<section id="init">') == 1
    assert "exchange without competition +0.120 [+0.070, +0.170]" in text
    assert "adapter.init = orthogonal" in text
    assert len(data_of(source, "frontier-data")["points"]) == len(example["frontier"])


def test_runs_are_found_wherever_the_page_is_made_from(made, tree, monkeypatch):
    monkeypatch.chdir(made)
    for arm in tree["arms"]:
        arm["runs"] = [{**run, "run": str(Path(run["run"]).relative_to(made))} for run in arm["runs"]]
    assert [len(arm.runs) for arm in arms_of(Tree.of(tree), collect([made]).runs)] == [2, 2, 2, 2]


def test_no_secret_that_a_note_quotes_passes_into_the_page(made, tree):
    tree["notes"] = ["the base differs: https://me:password1@host/model"]
    source = page_of(made, tree)
    assert "https://[redacted]@host/model" in source
    assert "password1" not in source
