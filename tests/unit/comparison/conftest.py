"""Run folders with hand-made evaluations: only what a comparison reads is in them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from agon.runs import create_parent

CHALLENGED = ("cascade", "self-cascade", "moa")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def make_run(path, method="agon", *, seed=0, steps=2, data="d0", metrics=None, **settings):
    """Make a run folder. `settings` are `table__key=value`."""
    config = {"train": {"method": method, "seed": seed, "steps": steps}, "rollout": {"max_draft_tokens": 44}}
    for name, value in settings.items():
        table, _, key = name.partition("__")
        config.setdefault(table, {})[key] = value
    write(path / "config.json", config)
    write(path / "manifest.json", {"format": "agon run", "format_version": 1, "versions": {}, "hashes": {"data": data}})
    rows = metrics if metrics is not None else [{"rollouts_per_problem": 16.0}] * steps
    lines = "".join(json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows))
    (path / "metrics.jsonl").write_text(lines)
    return path


def evaluate(folder, label, correct, *, protocol="single", direction=None, method="agon", players=None, **more):
    """Write an evaluation. `correct` is a text of 1 and 0, one a problem, or a mapping of id to samples."""
    if isinstance(correct, str):
        correct = {f"p{i:03d}": [mark == "1"] for i, mark in enumerate(correct)}
    if players is None:
        first, second = {"a-b": ("A", "B"), "b-a": ("B", "A")}.get(direction, ("A", "A"))
        if method is None:
            first = second = None
        challenger = (second or "base") if protocol in CHALLENGED else None
        players = {"drafters": [first], "challenger": challenger}
    values = [value for samples in correct.values() for value in samples]
    result = {
        "task": "countdown-lite",
        "protocol": protocol,
        "direction": direction,
        "method": method,
        "players": players,
        "split": "test",
        "n": len(correct),
        "samples": len(next(iter(correct.values()))),
        "accuracy": sum(values) / len(values),
        "tokens": {"draft": 20.0, "summary_prefill": 0.0, "challenge": 0.0, "total": 20.0, "prefill_total": 10.0},
        "truncated_share": 0.0,
        "seed": 1234,
        "temperature": 0.6,
        "top_p": 0.95,
        "per_problem": [{"id": name, "correct": samples} for name, samples in correct.items()],
        "notes": [],
        **more,
    }
    write(folder / "evaluations" / f"{label}.json", result)
    return result


def make_matrix(path, arms, seeds=(0, 1), *, rivals=()):
    """Write matrix.json. `arms` maps a name to (method, group, settings)."""
    write(
        path / "matrix.json",
        {
            "format": "agon matrix",
            "format_version": 1,
            "recipe": "r.toml",
            "seeds": list(seeds),
            "arms": [
                {"name": name, "title": name.title(), "method": method, "group": group, "set": changes}
                for name, (method, group, changes) in arms.items()
            ],
            "cells": [{"arm": name, "seed": seed, "run": f"cells/{name}-s{seed}"} for name in arms for seed in seeds],
            "rivals": list(rivals),
            "base": "base",
        },
    )
    return path


@pytest.fixture
def fake():
    """The makers above."""
    return SimpleNamespace(run=make_run, evaluate=evaluate, matrix=make_matrix, parent=create_parent, folder=Path)
