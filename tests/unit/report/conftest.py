"""Run folders with made-up but plausible numbers: countdown problems, drafts of uneven quality, four methods."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.runs import RunFolder, create_parent, write_evaluation

METHODS = {"grpo-doubled-cap": "grpo", "cooperative": "cooperative", "agon": "agon", "grpo": "grpo"}


def make_attempt(role, adapter, outcome, *, rng, gold="(3 + 4) * 2", cap=40):
    tries = [f"{rng.randint(1, 15)} {rng.choice('+-*')} {rng.randint(1, 15)}" for _ in range(rng.randint(1, 3))]
    answer = {"correct": gold, "wrong": "7 * 2 - 3"}.get(outcome)
    tail = "" if answer is None else f"</think>\nI tried {', '.join(tries)}.\n<answer>{answer}</answer>"
    text = (
        "<think>\n"
        + "\n".join(f"try {i}: {move} = {rng.randint(0, 32)}" for i, move in enumerate(tries, 1))
        + "\n"
        + tail
    )
    size = cap if outcome == "truncated" else rng.randint(15, cap - 1)
    completion = Completion(
        tuple(rng.randrange(63) for _ in range(size)),
        (-0.5,) * size,
        text,
        "length" if outcome == "truncated" else "stop",
        adapter,
        110,
    )
    reason = {
        "wrong": "the value is 11, not 14",
        "unparsed": "no answer block",
        "truncated": "the cap was reached",
    }.get(outcome, "")
    verdict = Verdict(outcome, float(outcome == "correct"), reason, answer, gold)
    return Attempt(
        role, adapter, Prompt((1,) * 24, f"<user> 3 4 2 = 14\n{role}"), completion, verdict, float(answer is not None)
    )


def make_match(
    rng, number, *, challenge=True, drafts=1, draft_rate=0.6, convert=0.35, regress=0.12, adapters=("A", "B")
):
    problem = Problem(
        id=f"{number:08x}",
        question=f"Use {3 + number % 9}, 4 and 2, each once, to reach {14 + number % 17}.",
        gold="(3 + 4) * 2",
        task="countdown-lite",
        verifier="expression",
        summary_style="tries",
        level=float(number % 2 + 1),
    )

    def draw(rate):
        return "correct" if rng.random() < rate else rng.choices(("wrong", "unparsed", "truncated"), (8, 1, 1))[0]

    played = tuple(make_attempt("drafter", adapters[0], draw(draft_rate), rng=rng) for _ in range(drafts))
    if not challenge:
        return Match(problem, 0, played)
    right = any(draft.is_correct for draft in played)
    final = make_attempt("challenger", adapters[1], draw(1 - regress if right else convert), rng=rng)
    summaries = tuple(
        Summary(f"tried 3 + 4 = 7, 7 * 2 = [withheld]; draft {i}", False, rng.random() < 0.02, 1, 12)
        if not draft.completion.is_truncated
        else Summary("(no summary)", True, False, 0, 3)
        for i, draft in enumerate(played)
    )
    return Match(problem, 0, played, summaries, final)


def evaluation_of(label, matches, *, protocol, method, direction=None, **more):
    """Build the result file that the evaluation package writes, with counts from the matches and a round interval."""
    right = [match.final.is_correct for match in matches]
    wrong_drafts = [match for match in matches if not any(draft.is_correct for draft in match.drafts)]
    right_drafts = [match for match in matches if any(draft.is_correct for draft in match.drafts)]
    has_challenge = matches[0].challenge is not None
    accuracy = sum(right) / len(right)
    draft = sum(d.completion.num_tokens for m in matches for d in m.drafts) / len(matches)
    final = sum(m.challenge.completion.num_tokens for m in matches) / len(matches) if has_challenge else 0
    return {
        "label": label,
        "task": "countdown-lite",
        "protocol": protocol,
        "direction": direction,
        "method": method,
        "players": {
            "drafters": [draft.adapter for draft in matches[0].drafts],
            "challenger": (matches[0].challenge.adapter or "base") if has_challenge else None,
        },
        "split": "test",
        "n": len(matches),
        "samples": 1,
        "accuracy": accuracy,
        "interval": {
            "low": max(0, accuracy - 0.057),
            "high": min(1, accuracy + 0.055),
            "level": 0.95,
            "kind": "clopper-pearson",
            "unit": "problem",
        },
        "tokens": {
            "draft": draft,
            "summary_prefill": 12.5 if has_challenge else 0,
            "challenge": final,
            "total": draft + final,
            "prefill_total": 24.0 * (2 if has_challenge else 1),
        },
        "conversion": sum(m.final.is_correct for m in wrong_drafts) / max(1, len(wrong_drafts))
        if has_challenge
        else None,
        "regression": sum(not m.final.is_correct for m in right_drafts) / max(1, len(right_drafts))
        if has_challenge
        else None,
        "copy_rate": 0.04 if has_challenge else None,
        "leak_rate": 0.018 if has_challenge else None,
        "empty_summary_share": 0.03 if has_challenge else None,
        "blind_second": 0.27 if has_challenge else None,
        "pass_at_k": {"1": accuracy},
        "outcomes": {"correct": sum(right), "wrong": len(right) - sum(right)},
        "truncated_share": 0.03,
        "seed": 1234,
        "temperature": 0.6,
        "top_p": 0.95,
        "per_problem": [{"id": m.problem.id, "correct": [m.final.is_correct]} for m in matches],
        "notes": [],
        **more,
    }


def metrics_rows(rng, method, steps):
    """A row for each step: accuracy climbs, entropy falls, the roles swap."""
    for step in range(steps):
        done = step / max(1, steps - 1)
        streams = ("draft",) if method == "grpo" else ("draft", "challenge")
        row = {
            "step": step,
            "drafter": "AB"[step % 2] if len(streams) == 2 else "A",
            "learning_rate": 1e-3 * min(1.0, 10 * done) * (1 - done),
            "rollouts_per_problem": 16.0,
        }
        for stream in streams:
            base = 0.42 + (0.08 if stream == "challenge" else 0) + 0.18 * done**0.6
            accuracy = min(1.0, max(0.0, rng.gauss(base, 0.04)))
            row |= {
                f"{stream}/accuracy": accuracy,
                f"{stream}/reward_mean": 2 * accuracy + 0.48,
                f"{stream}/format_mean": 0.97,
                f"{stream}/tokens_mean": rng.gauss(30 - 7 * done, 1),
                f"{stream}/truncated_share": max(0.0, rng.gauss(0.08 * (1 - done), 0.01)),
                f"{stream}/unparsed_share": 0.01,
                f"{stream}/error_share": 0.0,
                f"{stream}/entropy": 0.6 - 0.25 * done + rng.gauss(0, 0.02),
                f"{stream}/loss": rng.gauss(0, 0.01),
                f"{stream}/grad_norm": abs(rng.gauss(0.5, 0.1)),
                f"{stream}/dead_group_share": min(1.0, 0.2 + 0.2 * done + rng.gauss(0, 0.04)),
                f"{stream}/logprob_gap_mean": 2e-6,
                f"{stream}/logprob_gap_max": 3e-5,
                f"{stream}/importance_mean": 1.0,
                f"{stream}/clip_share": 0.0,
                f"{stream}/tokens_learned": rng.randint(1500, 2500),
            }
        if len(streams) == 2:
            row |= {
                "match/conversion": None if step == 3 else 0.3 + 0.1 * done + rng.gauss(0, 0.05),
                "match/regression": abs(rng.gauss(0.13, 0.03)),
                "match/copy_rate": abs(rng.gauss(0.05, 0.02)),
                "match/leak_rate": 0.0,
                "match/empty_summary_share": 0.04,
                "match/bonus_effective_fraction": abs(rng.gauss(0.12, 0.05)) if method == "agon" else 0.0,
                "match/withheld_mean": 0.9,
                "pair/distance": 1.4 - 0.1 * done,
            }
        yield row


TIMES = {"generate_s": 0.275, "sync_s": 0.011, "verify_wait_s": 0.0, "learn_s": 0.22, "save_s": 0.011, "other_s": 0.033}
TIMES |= {"total_s": 0.55}


def make_run(path, method, *, seed=0, steps=40, num_matches=24):
    settings = {
        "model": {"base": "quickstart"},
        "train": {"method": method, "seed": seed, "steps": steps, "problems_per_step": 16, "group_size": 8},
        "tracking": {"backend": "none"},
    }
    rng = random.Random(f"{method} {seed} {path.name}")
    with RunFolder.create(path, settings=settings, hashes={"base": "0123abcd"}) as run:
        for row in metrics_rows(rng, method, steps):
            run.write_metrics(row)
            run.write_timings({"step": row["step"], **TIMES, "sampled_tokens": 5500})
        if steps:
            run.write_matches(steps - 1, [make_match(rng, i, challenge=method != "grpo") for i in range(num_matches)])
    return path


def make_parent(path: Path, *, steps=40, n=60) -> Path:
    """Make what the quickstart leaves: a parent with four runs, seven evaluations."""
    create_parent(path, children=list(METHODS), default="agon")
    for name, method in METHODS.items():
        make_run(path / name, method, steps=steps)
    rng = random.Random(1)

    def add(folder, label, *, protocol, method, direction=None, notes=(), **how):
        matches = [make_match(rng, i, **how) for i in range(n)]
        result = evaluation_of(label, matches, protocol=protocol, method=method, direction=direction, notes=list(notes))
        write_evaluation(folder, label, result, matches)

    add(path, "zero-shot", protocol="single", method=None, challenge=False, draft_rate=0.44, adapters=(None, None))
    add(path, "moa-untrained", protocol="moa", method=None, drafts=2, draft_rate=0.44, adapters=(None, None))
    add(path / "grpo", "grpo", protocol="single", method="grpo", challenge=False)
    add(
        path / "grpo-doubled-cap",
        "grpo-doubled-cap",
        protocol="single",
        method="grpo",
        challenge=False,
        draft_rate=0.79,
    )
    add(path / "grpo", "grpo-self-cascade", protocol="self-cascade", method="grpo", adapters=("A", "A"))
    note = "direction b-a chosen on 64 development problems (a-b 0.703, b-a 0.719)"
    for name in ("cooperative", "agon"):
        add(path / name, name, protocol="cascade", method=name, direction="b-a", notes=[note], adapters=("B", "A"))
    return path


def make_microscope(*, accuracies=(0.6, 0.5), kl=0.02, alarms=()):
    """Make what the microscope writes of a pair: B is .1 worse, the union .05 above the null, conversion .1 above blind."""
    interval = {"low": 0.0, "high": 0.1, "level": 0.95, "kind": "cluster-bootstrap", "unit": "problem"}

    def rate(value):
        return {"rate": value, "n": 40, "interval": interval}

    def overlap(value):
        counts = {"both": 40, "only_first": 20, "only_second": 10, "neither": 30}
        names = ("q", "rho", "disagreement", "double_fault", "union", "independent_union", "kappa", "error_jaccard")
        return {"measures": {**counts, **dict.fromkeys(names, value)}, "intervals": {"q": interval, "rho": None}}

    def policy(text, first, second, own):
        names = ("kl", "kl_reverse", "js", "top1_agreement")
        values = dict(zip(names, (own, own + 0.01, own / 4, 0.97), strict=True))
        return {
            "text": text,
            "first": first,
            "second": second,
            "num_tokens": 900,
            **values,
            "intervals": dict.fromkeys(names),
        }

    way = {
        "conversion": rate(0.4),
        "blind_conversion": rate(0.3),
        "regression": rate(0.1),
        "blind_regression": rate(0.2),
        "copy": rate(0.05),
        "blind_copy": rate(0.02),
        "leak": None,
        "discernment": 0.9,
    }
    angles = {
        "overlap": 0.3,
        "random_overlap": 0.25,
        "smallest": 9.0,
        "median": 61.5,
        "largest": 90.0,
        "num_layers": 28,
    }
    players = {
        name: {"accuracy": accuracy, "interval": interval, "pass_at_2": accuracy + 0.1, "tokens": 22.0}
        for name, accuracy in zip("AB", accuracies, strict=True)
    }
    difference = accuracies[1] - accuracies[0]
    return {
        "format_version": 1,
        "task": "countdown-lite",
        "split": "test",
        "method": "agon",
        "protocol": "cascade",
        "checkpoint": "step-000012",
        "n": 290,
        "samples": 2,
        "seed": 1234,
        "temperature": 0.6,
        "top_p": 0.95,
        "exchange": {"a-b": way, "b-a": {**way, "conversion": rate(0.5), "regression": None}},
        "singles": {
            "players": players,
            "strength": {
                "difference": {"difference": difference, "interval": interval, "n": 290, "wins": 9, "losses": 38},
                "min_detectable": 0.08,
            },
            "overlap": {"A-B": overlap(0.5), "A-A": overlap(0.7), "B-B": overlap(0.9)},
            "union": {
                "union": 0.7,
                "gain": {"gain": 0.05, "interval": interval, "n": 290},
                "gain_over_stronger": {"gain": -0.01, "interval": interval, "n": 290},
            },
        },
        "policies": [
            policy(text, first, second, own)
            for text, own in (("A", kl), ("B", 2 * kl))
            for first, second in (("A", "B"), ("A", "base"), ("B", "base"))
        ],
        "updates": {
            "distance": 1.3,
            "cosine": None,
            "norm_first": 2.0,
            "norm_second": 1.9,
            "outputs": angles,
            "inputs": None,
        },
        "alarms": list(alarms),
        "notes": [],
    }


@pytest.fixture
def fake():
    """The makers above."""
    return SimpleNamespace(
        parent=make_parent,
        run=make_run,
        match=make_match,
        evaluation=evaluation_of,
        attempt=make_attempt,
        metrics=metrics_rows,
        microscope=make_microscope,
    )


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """Make the quickstart's folder once."""
    return make_parent(tmp_path_factory.mktemp("template") / "quickstart", steps=12, n=20)


@pytest.fixture
def parent(template, tmp_path):
    """A copy of the quickstart's folder that a test may change."""
    return Path(shutil.copytree(template, tmp_path / "quickstart"))
