from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.config import EvaluationSettings
from agon.evaluation.batches import play_all
from agon.match.lineups import lineup_for
from agon.match.play import Sampling
from agon.records import Problem

SAMPLING = Sampling(max_draft_tokens=60, max_challenge_tokens=60, max_summary_tokens=50)
PROTOCOLS = ("cascade", "placebo", "empty-draft", "answer-visible", "selective", "majority", "moa")
# Not in the order of their ids.
PROBLEMS = [Problem(id=name, question=f"q{name}", gold="1", task="t", verifier="exact") for name in "dbeac"]


def _says(prompt, request):
    return f"{prompt[1]}{request.seed % 997}<answer>1</answer>"


def _played(session, protocol, size, **options):
    batches = EvaluationSettings(problems_per_batch=size, samples=2)
    return play_all(session, PROBLEMS, lineup_for(protocol, **options), settings=batches, sampling=SAMPLING)


@given(size=st.integers(1, 6), protocol=st.sampled_from(PROTOCOLS))
@settings(max_examples=30)
def test_matches_do_not_depend_on_the_size_of_a_batch(make_session_once, size, protocol):
    def played(size):
        session, _ = make_session_once(_says, logprob=lambda request: -(request.seed % 8) / 8)
        options = {"threshold": -0.5} if protocol == "selective" else {}
        return _played(session, protocol, size, **options)

    matches = played(size)
    assert matches == played(5)
    assert [[match.problem.id for match in of_problem] for of_problem in matches] == [[name] * 2 for name in "dbeac"]


def test_a_placebos_partner_is_played_beside_it_where_that_is_possible(make_session):
    session, engine = make_session(_says)
    played = _played(session, "placebo", 2)
    # batches a b, c d, e: the last of each reads the first of the next, so three problems draft once more to be read alone
    assert len(engine.requests) == 2 * (5 + 3 + 5)
    partner = {"a": "b", "b": "c", "c": "d", "d": "e", "e": "a"}
    for of_problem in played:
        for match in of_problem:
            assert match.summaries[0].text.startswith(partner[match.problem.id])


def test_progress_counts_problems(make_session):
    session, _ = make_session(_says)
    told = []
    play_all(
        session,
        PROBLEMS,
        lineup_for("cascade"),
        settings=EvaluationSettings(problems_per_batch=2),
        sampling=SAMPLING,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_draw_the_same_drafts(make_session, protocol):
    session, _ = make_session(_says)
    single = _played(session, "single", 3)
    for plain, of_problem in zip(single, _played(session, protocol, 3), strict=True):
        assert [match.drafts[0] for match in of_problem] == [match.draft for match in plain]
