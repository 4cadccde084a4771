"""A matrix of runs with made-up numbers, and the tree that a comparison of it would be."""

import random
from types import SimpleNamespace

import pytest

from agon.runs import write_evaluation
from agon.runs.matrix import Matrix, MatrixArm, MatrixCell, write_matrix

ARMS = {
    "grpo": ("GRPO", "grpo", "baseline", 0.60),
    "grpo-doubled-cap": ("GRPO, doubled cap", "grpo", "baseline", 0.79),
    "cooperative": ("cooperative exchange", "cooperative", "exchange", 0.72),
    "agon": ("Agon", "agon", "exchange", 0.70),
}
LEVEL = {"level": 0.95, "kind": "nested-bootstrap", "unit": "seed, problem"}


def interval(middle, half=0.04):
    return {"low": round(middle - half, 4), "high": round(middle + half, 4), **LEVEL}


def make_cell(fake, path, name, method, rate, *, seed, steps, n):
    """Make one run with its evaluations; return the labels with their accuracy and matches' direction."""
    run = fake.run(path, method, seed=seed, steps=steps, num_matches=4)
    rng = random.Random(f"{name} {seed}")
    found = {}

    def measure(label, protocol, direction=None, **how):
        matches = [fake.match(rng, i, **how) for i in range(n)]
        result = fake.evaluation(label, matches, protocol=protocol, method=method, direction=direction)
        write_evaluation(run, label, result, matches)
        found[label] = result

    measure("single-a", "single", challenge=False, draft_rate=rate)
    if method != "grpo":
        measure("cascade-a-b", "cascade", "a-b", draft_rate=rate, adapters=("A", "B"))
        measure("cascade-b-a", "cascade", "b-a", draft_rate=rate, adapters=("B", "A"))
    return found


def row_of(arm, title, who, results, runs, *, n, direction=None):
    """A row over seeds. `results` are (label, result) of each seed."""
    accuracies = [result["accuracy"] for _, result in results]
    mean = sum(accuracies) / len(accuracies)
    first = results[0][1]
    return {
        "id": f"{arm}:{first['protocol']}:{who}",
        "arm": arm,
        "title": title,
        "protocol": first["protocol"],
        "who": who,
        "direction": direction,
        "drafts": 1,
        "seeds": [] if arm == "base" else list(range(len(results))),
        "n": n,
        "samples": 1,
        "accuracy": mean,
        "interval": interval(mean),
        "interval_kind": LEVEL["kind"],
        "seed_sd": 0.012 if len(results) > 1 else None,
        "per_seed": [
            {
                "seed": None if arm == "base" else seed,
                "accuracy": result["accuracy"],
                "interval": interval(result["accuracy"]),
                "run": str(run),
                "labels": [label],
                "direction": result["direction"],
            }
            for seed, ((label, result), run) in enumerate(zip(results, runs, strict=True))
        ],
        "tokens": {"prompt_prefill": 24.0, **first["tokens"]},
        "truncated_share": first["truncated_share"],
        "dead_group_share": None if arm == "base" else 0.31,
        "revived_group_share": 0.12 if arm.startswith("agon") else None,
        "conversion": first["conversion"],
        "regression": first["regression"],
        "copy": first["copy_rate"],
        "leak": first["leak_rate"],
        "blind_second": first["blind_second"],
        "counted": {},
        "latency_s": None,
        "notes": [],
    }


def rows_of(arm, title, results, runs, *, n):
    rows = [row_of(arm, title, "a", [("single-a", found["single-a"]) for found in results], runs, n=n)]
    if "cascade-a-b" in results[0]:
        for way in ("a-b", "b-a"):
            label = f"cascade-{way}"
            rows.append(row_of(arm, title, way, [(label, found[label]) for found in results], runs, n=n, direction=way))
        rows += [{**rows[-1], "id": f"{arm}:cascade:{who}", "who": who, "direction": who} for who in ("mean", "chosen")]
    return rows


def test_of(first, second, *, p_holm):
    difference = first["accuracy"] - second["accuracy"]
    return {
        "first": first["id"],
        "second": second["id"],
        "kind": "paired-nested-bootstrap",
        "n": first["n"],
        "seeds": len(first["seeds"]),
        "difference": difference,
        "interval": interval(difference, 0.05),
        "p": p_holm / 2,
        "p_holm": p_holm,
        "family": f"against {second['arm']}",
        "wins": 5,
        "losses": 7,
        "min_detectable": 0.07,
    }


def make_matrix(fake, path, *, arms=ARMS, seeds=(0, 1), steps=8, n=12):
    """Make the folder; return the tree of its comparison."""
    path.mkdir(parents=True)
    cells = [MatrixCell(name, seed, f"cells/{name}-s{seed}") for name in arms for seed in seeds]
    named = tuple(MatrixArm(name, title, method, group) for name, (title, method, group, _) in arms.items())
    write_matrix(path, Matrix("made-up", tuple(seeds), named, tuple(cells), ("grpo-doubled-cap", "cooperative")))
    (path / "base").mkdir()
    matches = [
        fake.match(random.Random(i), i, challenge=False, draft_rate=0.44, adapters=(None, None)) for i in range(n)
    ]
    base = fake.evaluation("single", matches, protocol="single", method=None)
    write_evaluation(path / "base", "single", base, matches)
    (path / "cells").mkdir()
    rows = [row_of("base", "untrained base", "base", [("single", base)], [path / "base"], n=n)]
    nodes = [arm_node("base", "untrained base", None, None, [], "base:single:base")]
    for name, (title, method, group, rate) in arms.items():
        runs = [path / "cells" / f"{name}-s{seed}" for seed in seeds]
        results = [
            make_cell(fake, run, name, method, rate, seed=seed, steps=steps, n=n)
            for run, seed in zip(runs, seeds, strict=True)
        ]
        rows += rows_of(name, title, results, runs, n=n)
        headline = f"{name}:single:a" if method == "grpo" else f"{name}:cascade:chosen"
        trained = [
            {"seed": seed, "run": str(run), "steps": steps, "planned_steps": steps}
            for seed, run in zip(seeds, runs, strict=True)
        ]
        nodes.append(arm_node(name, title, method, group, trained, headline))
    return tree_of(nodes, rows, n=n)


def arm_node(name, title, method, group, runs, headline):
    settings = {"rollout.max_draft_tokens": 88} if name == "grpo-doubled-cap" else {}
    return {
        "name": name,
        "title": title,
        "method": method,
        "settings": settings,
        "group": group,
        "runs": runs,
        "headline": headline,
        "rollouts_per_problem": 16.0 if runs else None,
    }


def bare_row(arm, title, who, *, protocol, accuracy, direction=None):
    """A row of one training that no folder stands behind."""
    tokens = {"draft": 20.0, "summary_prefill": 0.0, "challenge": 0.0, "total": 20.0, "prefill_total": 24.0}
    tokens |= {"challenge": 22.0, "total": 42.0} if protocol == "cascade" else {}
    rates = dict.fromkeys(("conversion", "regression", "copy_rate", "leak_rate", "blind_second"))
    result = {"protocol": protocol, "accuracy": accuracy, "tokens": tokens, "truncated_share": 0.02, "direction": None}
    return row_of(arm, title, who, [("label", {**result, **rates})], ["nowhere"], n=290, direction=direction)


def bare_arm(name, title, method, group, runs, headline):
    trained = [{"seed": seed, "run": run, "steps": 9, "planned_steps": 9} for seed, run in enumerate(runs)]
    return arm_node(name, title, method, group, trained, headline)


def tree_of(nodes, rows, *, n=290, rivals=("grpo-doubled-cap:single:a", "cooperative:cascade:chosen")):
    by_id = {row["id"]: row for row in rows}
    rivals = [by_id[name] for name in rivals if name in by_id]
    headlines = [by_id[node["headline"]] for node in nodes if node["headline"] is not None]
    tests = [
        test_of(row, rival, p_holm=0.002 if row["arm"] == "base" else 0.31)
        for rival in rivals
        for row in headlines
        if row["id"] != rival["id"]
    ]
    best = max(rows, key=lambda row: row["accuracy"], default=None)
    return {
        "subject": {
            "task": "countdown-lite",
            "split": "test",
            "n": n,
            "evaluation_seed": 1234,
            "temperature": 0.6,
            "top_p": 0.95,
            "data_hash": "c0ffee01",
        },
        "arms": nodes,
        "rows": rows,
        "tests": tests,
        "panel_2x2": None,
        "init_panel": [],
        "frontier": [
            {
                "row": row["id"],
                "accuracy": row["accuracy"],
                "total": row["tokens"]["total"],
                "all_tokens": row["tokens"]["total"] + row["tokens"]["prefill_total"],
                "is_on_front": row is best,
                "is_rival": row["arm"] == "grpo-doubled-cap",
                "dominated_by": None if row is best else best["id"],
            }
            for row in rows
        ],
        "notes": ["a made-up note"],
        "format_version": 1,
    }


@pytest.fixture
def study():
    """The makers above."""
    return SimpleNamespace(matrix=make_matrix, arms=ARMS, row=bare_row, arm=bare_arm, tree=tree_of, test=test_of)
