"""Several evaluations in one start, through the command line."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.rollout.torch_engine import TorchEngine
from agon.runs import read_json

LABELS = {
    "single-a": ("--protocol", "single"),
    "cascade-b-a": ("--protocol", "cascade", "--direction", "b-a"),
    "self-cascade": ("--protocol", "self-cascade"),
    "cascade-a-b-dev": ("--protocol", "cascade", "--direction", "a-b", "--split", "dev"),
}


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("evaluations"))


@pytest.fixture
def asked(monkeypatch):
    """Every request that reaches the engine."""
    requests = []
    generate = TorchEngine.generate

    def recorded(self, batch, on_finish=None):
        requests.extend(batch)
        return generate(self, batch, on_finish)

    monkeypatch.setattr(TorchEngine, "generate", recorded)
    return requests


def _files(run: Path) -> tuple[dict[str, object], list[float]]:
    """What is filed, without the seconds that results took, and apart from it every logprob: engines round differently in other batches."""
    found: dict[str, object] = {}
    logprobs: list[float] = []
    for path in sorted((run / "evaluations").iterdir()):
        if path.suffix == ".json":
            result = read_json(path)
            assert result.pop("latency_s") > 0
            assert len(result.pop("matches_sha256")) == 64
            found[path.name] = json.dumps(result)
        else:
            found[path.name] = matches = _matches(run, path.name.removesuffix(".matches.jsonl.gz"))
            for match in matches:
                for attempt in (*match["drafts"], *([match["challenge"]] if match["challenge"] else [])):
                    logprobs += attempt["completion"].pop("logprobs")
    return found, logprobs


def _matches(run: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(run / "evaluations" / f"{name}.matches.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _drafts(run: Path, name: str) -> list[dict[str, Any]]:
    return [match["drafts"][0] for match in _matches(run, name)]


def test_each_is_what_a_command_for_it_alone_makes_but_for_rounding(agon, run, capsys):
    assert agon("eval", run, "--evaluations", ",".join(LABELS), "--samples", "2", "--json") == 0
    together = json.loads(capsys.readouterr().out)
    filed, logprobs = _files(run)
    shutil.rmtree(run / "evaluations")
    alone = []
    for words in LABELS.values():
        assert agon("eval", run, *words, "--samples", "2", "--json") == 0
        alone.append(json.loads(capsys.readouterr().out))
    assert together == {"evaluations": alone}
    alone_filed, alone_logprobs = _files(run)
    assert filed == alone_filed
    assert logprobs == pytest.approx(alone_logprobs, abs=1e-4)
    assert len(filed) == 2 * len(LABELS)


def test_drafts_are_shared_and_sampled_once(agon, run, asked):
    assert agon("eval", run, "--evaluations", "single-a,cascade-a-b,self-cascade-a") == 0
    assert len(set(asked)) == len(asked)
    # twelve problems: the drafts of A, two challenges each, and the blind passes
    assert len(asked) >= 3 * 12
    name = "countdown-lite-test"
    assert (
        _drafts(run, f"{name}-single-a")
        == _drafts(run, f"{name}-cascade-a-b")
        == _drafts(run, f"{name}-self-cascade-a")
    )


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C while a cascade is being measured."""
    from agon.evaluation import request

    measure_prepared = request.measure_prepared

    def measured(prepared, **others):
        if prepared.wish.protocol == "cascade":
            raise KeyboardInterrupt
        return measure_prepared(prepared, **others)

    monkeypatch.setattr(request, "measure_prepared", measured)


@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_loses_only_what_was_being_measured(agon, run, capsys):
    assert agon("eval", run, "--evaluations", "single-b,cascade-a-b,single-a") == 130
    assert "single (countdown-lite-test-single-b): pass@1" in capsys.readouterr().out
    assert [path.name for path in sorted((run / "evaluations").glob("*.json"))] == ["countdown-lite-test-single-b.json"]


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_document_holds_what_was_measured(agon, capsys):
    # A base has no folder where it is filed.
    words = ("eval", "quickstart", "--json", "--set", "evaluation.max_test=8", "--evaluations")
    assert agon(*words, "single,cascade") == 130
    document = json.loads(capsys.readouterr().out)
    assert [one["label"] for one in document["evaluations"]] == ["countdown-lite-test-single-base"]
    assert agon(*words, "cascade,single") == 130
    assert capsys.readouterr().out == ""


def test_another_file_and_a_doubled_cap_replace_no_result_of_the_runs_own_task(agon, run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    import own_task

    rows = list(own_task.rows(6, 3))
    sys.modules.pop("own_task")
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    words = ("--evaluations", "single-a,single-a-doubled-cap", "--checkpoint", "2")
    assert agon("eval", run, *words) == 0
    before, _ = _files(run)
    assert agon("eval", run, *words, "--task", file, "--set", "task.verifier=expression") == 0
    after, _ = _files(run)
    assert {name: after[name] for name in before} == before
    assert [name for name in after if name.endswith(".json")] == [
        f"{task}-test-single-a{cap}-step-000002.json"
        for task in ("countdown-lite", "mine.jsonl")
        for cap in ("-doubled-cap", "")
    ]


def test_what_does_not_fit_is_refused_before_anything_is_sampled(agon, run, asked, capsys):
    # Twice 124 and a question of 9 are one more than the context of 256.
    caps = ("--set", "rollout.max_draft_tokens=124")
    assert agon("eval", run, "--evaluations", "single-a,single-a-doubled-cap", *caps) == 2
    assert "agon: evaluation 'single-a-doubled-cap': " in capsys.readouterr().err
    assert asked == []
    assert not list((run / "evaluations").glob("*.json"))


def test_a_bare_base_is_measured_and_told_of(agon, capsys):
    assert agon("eval", "quickstart", "--evaluations", "single,majority-k2", "--set", "evaluation.max_test=8") == 0
    told = capsys.readouterr().out
    assert "single (countdown-lite-test-single-base): pass@1" in told
    assert "majority (countdown-lite-test-majority-base-k2): pass@1" in told
