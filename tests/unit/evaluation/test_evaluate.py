from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from agon.config import EvaluationSettings
from agon.errors import DataError
from agon.evaluation.evaluate import (
    Subject,
    _pass_at_k,
    better_direction,
    direction_note,
    direction_scores,
    evaluate,
)
from agon.match.lineups import lineup_for
from agon.match.play import Sampling
from agon.records import Problem

SAMPLING = Sampling(max_draft_tokens=80, max_challenge_tokens=80, max_summary_tokens=50)
# Problem n, drafted by A: right for 0 and 1. B challenges: right for 0 (kept) and 2 (converted), wrong for 1 (lost), 3, 4 (copied).
PROBLEMS = [Problem(id=f"p{n}", question=f"q{n}", gold="1", task="t", verifier="exact") for n in range(5)]
DRAFTS, CHALLENGES, BLIND = ("1", "1", "7", "7", "7"), ("1", "8", "1", "9", "7"), ("9", "1", "1", "1", "9")


def _says(prompt, request):
    number = int(prompt[1])
    answers = CHALLENGES if "|" in prompt else DRAFTS if request.adapter == "A" else BLIND
    return f"tried {number}<answer>{answers[number]}</answer>"


def _measured(session, protocol, *, samples=1, **options):
    subject = Subject(
        label="x", task="t", protocol=protocol, lineup=lineup_for(protocol, **options), split="test", direction="a-b"
    )
    return evaluate(
        session,
        PROBLEMS,
        subject,
        settings=EvaluationSettings(samples=samples, problems_per_batch=2),
        sampling=SAMPLING,
    )


def test_a_cascade_is_counted_from_its_matches(make_session):
    session, engine = make_session(_says)
    result = _measured(session, "cascade").result
    assert (result["accuracy"], result["n"], result["samples"]) == (2 / 5, 5, 1)
    # wrong drafts 2, 3, 4: one converted, one copied; right ones 0, 1: one lost
    assert (result["conversion"], result["copy_rate"], result["regression"]) == (
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
        1 / 2,
    )
    assert result["blind_second"] == pytest.approx(2 / 3)
    assert {name: row["n"] for name, row in result["intervals"].items()} == {
        "conversion": 3,
        "regression": 2,
        "blind_second": 3,
    }
    assert result["challenged_share"] == 1.0
    assert [row["correct"] for row in result["per_problem"]] == [[True], [False], [True], [False], [False]]
    # the blind second pass is played where it is counted, on problems 2, 3 and 4, and not on all five
    assert len(engine.requests) == 5 + 5 + 3
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_a_selective_cascade_counts_what_it_challenged(make_session):
    # drafts of problems 1 and 2 are doubtful
    session, engine = make_session(_says, logprob=lambda request: -2.0 if chr(request.prompt_ids[1]) in "12" else -0.1)
    measured = _measured(session, "selective", threshold=-1.0)
    result = measured.result
    # right: 0 as drafted, 1 lost by its challenge, 2 converted; 3 and 4 stay wrong
    assert (result["accuracy"], result["challenged_share"]) == (2 / 5, 2 / 5)
    assert (result["conversion"], result["regression"], result["blind_second"]) == (1.0, 1.0, 1.0)
    assert result["lineup"] == {
        "reads": "own",
        "shows_answer": False,
        "layers": 1,
        "doubt": "likelihood",
        "threshold": -1.0,
    }
    assert len(engine.requests) == 5 + 2 + 1
    cost = _measured(session, "cascade").result["tokens"]["challenge"]
    assert result["tokens"]["challenge"] == pytest.approx(cost * 2 / 5)


def test_a_threshold_without_bounds_is_a_text_that_reads_back_as_a_number(make_session):
    session, _ = make_session(_says)
    result = _measured(session, "selective").result
    assert result["lineup"]["threshold"] == "inf"
    assert float(json.loads(json.dumps(result, allow_nan=False))["lineup"]["threshold"]) == float("inf")
    assert _measured(session, "cascade").result["lineup"]["threshold"] is None


def test_controls_read_something_else_and_cost_the_same_drafts(make_session):
    session, _ = make_session(_says)
    results = {name: _measured(session, name).result for name in ("single", "cascade", "placebo", "empty-draft")}
    assert len({result["tokens"]["draft"] for result in results.values()}) == 1
    assert results["empty-draft"]["empty_summary_share"] == 1.0
    assert results["placebo"]["lineup"]["reads"] == "placebo"
    assert (results["single"]["lineup"]["reads"], results["single"]["challenged_share"]) == (None, 0.0)
    assert (results["single"]["blind_second"], results["single"]["intervals"]) == (None, {})


def test_every_sample_is_graded_and_counts():
    # Right, wrong, wrong, wrong: the mean is 1/4; of two samples drawn the right one is among them in 3 of 6 pairs.
    assert _pass_at_k([[True, False, False, False]]) == {"1": 0.25, "2": 0.5, "4": 1.0}


def test_four_samples_are_four_answers_of_each_problem(make_session):
    asked = Counter()

    def says(prompt, request):
        asked[prompt] += 1
        return f"<answer>{1 if asked[prompt] == 1 else 7}</answer>"

    session, engine = make_session(says)
    result = _measured(session, "single", samples=4, adapter="A").result
    assert len(engine.requests) == 4 * len(PROBLEMS)
    assert (result["accuracy"], result["pass_at_k"]["4"], result["outcomes"]) == (
        0.25,
        1.0,
        {"correct": 5, "wrong": 15},
    )
    assert all(len(row["correct"]) == 4 for row in result["per_problem"])


def test_answers_cut_at_their_cap_count_as_wrong_and_are_said_where_they_are_many(make_session):
    # Problem 0 holds the right answer before the cut; 1 ends right, 2 to 4 end wrong.
    texts = ("<answer>1</answer>" + "and so on " * 8, "<answer>1</answer>", *(["<answer>7</answer>"] * 3))
    session, _ = make_session(lambda prompt, request: texts[int(prompt[1])])
    result = _measured(session, "single", adapter="A").result
    assert (result["accuracy"], result["outcomes"]["truncated"], result["truncated_share"]) == (1 / 5, 1, 1 / 5)
    assert result["notes"] == [
        "1 of 5 final answers were cut at their cap and count as wrong; of the 4 that ended 0.250 are right: the caps are "
        "rollout.max_draft_tokens and rollout.max_challenge_tokens"
    ]


def test_an_answer_that_is_shown_is_said_to_be_readable(make_session):
    session, _ = make_session(_says)
    result = _measured(session, "answer-visible").result
    assert (result["leak_rate"], result["lineup"]["shows_answer"]) == (1.0, True)
    assert _measured(session, "cascade").result["leak_rate"] < 1.0


def test_latency_is_the_engines_time_by_matches_and_stands_beside_the_result(make_session, monkeypatch):
    session, _ = make_session(_says)
    ticks = iter(range(1000))
    # In `play` the clock is read before and after each call of the engine, and twice around the waiting for verdicts.
    monkeypatch.setattr("agon.match.play.time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    measured = _measured(session, "cascade", samples=2)
    # batches of 2, 2 and 1 problems, two calls each of a second: 6 s for 10 matches; the blind pass is not part of the protocol
    assert measured.latency_s == pytest.approx(0.6)
    assert measured.stored == {**measured.result, "latency_s": measured.latency_s}
    assert "latency_s" not in measured.result


def test_completions_from_memory_keep_their_latency(make_session):
    session, _ = make_session(_says)
    remembering = session.remembering()
    first = _measured(remembering, "cascade")
    again = _measured(remembering, "cascade")
    assert again.result == first.result
    assert again.latency_s > 0


def test_a_direction_is_scored_by_the_cascade_unless_other_line_ups_are_given(make_session):
    # whoever challenges, its answers are those of the table: a tie, which goes to a-b
    session, _ = make_session(_says)
    how = {"task": "t", "settings": EvaluationSettings(), "sampling": SAMPLING}
    scores = direction_scores(session, PROBLEMS, **how)
    assert scores == {"a-b": 2 / 5, "b-a": 2 / 5}
    assert better_direction(scores) == "a-b"
    assert direction_note(scores, num_problems=5) == (
        "direction a-b chosen on 5 development problems (a-b 0.400, b-a 0.400)"
    )
    lineups = {name: lineup_for("blind-second", direction=name) for name in ("a-b", "b-a")}
    # the second counts: B alone is right for 1, 2 and 3, A alone for 0 and 1
    assert direction_scores(session, PROBLEMS, lineups=lineups, **how) == {"a-b": 3 / 5, "b-a": 2 / 5}


def test_a_split_without_problems_is_refused(make_session):
    session, _ = make_session(_says)
    subject = Subject(label="x", task="t", protocol="single", lineup=lineup_for("single"), split="test")
    with pytest.raises(DataError, match="the test split of t is empty"):
        evaluate(session, [], subject, settings=EvaluationSettings(), sampling=SAMPLING)
