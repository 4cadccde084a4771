from __future__ import annotations

import pytest

from agon.evaluation.ledger import token_ledger
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict

PROBLEM = Problem(id="p", question="q", gold="2", task="t", verifier="exact")


def _attempt(role, *, prompt, generated):
    completion = Completion((1,) * generated, (-0.1,) * generated, "x", "stop", "A", 0)
    return Attempt(role, "A", Prompt((1,) * prompt, "q"), completion, Verdict("wrong", 0.0), 1.0)


def _summary(num_tokens):
    return Summary("s", is_empty=False, has_leak=False, num_withheld=0, num_tokens=num_tokens)


CASCADE = Match(
    PROBLEM,
    0,
    (_attempt("drafter", prompt=10, generated=40),),
    (_summary(6),),
    _attempt("challenger", prompt=20, generated=30),
)
UNCHALLENGED = Match(PROBLEM, 1, (_attempt("drafter", prompt=10, generated=20),))
LAYERED = Match(
    PROBLEM,
    0,
    tuple(_attempt("drafter", prompt=25, generated=n) for n in (8, 12)),
    (_summary(3), _summary(4)),
    _attempt("challenger", prompt=30, generated=16),
    earlier=tuple(_attempt("drafter", prompt=10, generated=n) for n in (20, 24)),
    earlier_summaries=(_summary(5), _summary(2)),
)


def test_a_cascade_pays_for_both_stages_and_for_what_was_read_between():
    assert token_ledger([CASCADE]) == {
        "draft": 40,
        "challenge": 30,
        "total": 70,
        "summary_prefill": 6,
        "prompt_prefill": 24,  # 10 + 20 - 6
        "prefill_total": 30,
    }


def test_a_draft_that_is_not_challenged_pays_for_itself_alone():
    ledger = token_ledger([CASCADE, UNCHALLENGED])
    # means of two matches
    assert ledger == {
        "draft": 30,
        "challenge": 15,
        "total": 45,
        "summary_prefill": 3,
        "prompt_prefill": 17,  # (24 + 10) / 2
        "prefill_total": 20,
    }


def test_every_layer_is_paid_for_and_its_summaries_by_each_that_reads_them():
    assert token_ledger([LAYERED]) == {
        "draft": 64,  # 20 + 24 + 8 + 12
        "challenge": 16,
        "total": 80,
        # both drafters of the second layer read 5 + 2, the challenger 3 + 4
        "summary_prefill": 21,
        "prompt_prefill": 79,  # 10 + 10 + 25 + 25 + 30 - 21
        "prefill_total": 100,
    }


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_played_layers_are_counted_as_the_engine_was_asked(make_session, layers):
    session, engine = make_session(lambda prompt, request: f"{request.seed % 997}<answer>2</answer>")
    lineup = lineup_for("moa", num_drafts=2, layers=layers)
    sampling = Sampling(max_draft_tokens=60, max_challenge_tokens=60, max_summary_tokens=50)
    ((match,),) = play(session, [PROBLEM], lineup, samples=1, sampling=sampling, seed=0, stream=("test",))
    ledger = token_ledger([match])
    assert len(engine.requests) == 2 * layers + 1 == lineup.num_rollouts
    assert ledger["prefill_total"] == sum(len(request.prompt_ids) for request in engine.requests)
    # the bare prompts hold the question (one token), and before each summary a bar (one token)
    read = 2 * (2 * (layers - 1)) + 2
    assert ledger["prompt_prefill"] == 2 * layers + 1 + read
    assert ledger["total"] == sum(attempt.completion.num_tokens for attempt in match.attempts)
