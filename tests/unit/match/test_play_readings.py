"""Every way in which a challenge can read, and every way in which there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.errors import DataError
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.prompts.withhold import WITHHELD
from agon.prompts.wordings import NO_SUMMARY
from agon.records import Lineup, Problem
from agon.runs.matches import read_matches, write_matches

SAMPLING = Sampling(max_draft_tokens=60, max_challenge_tokens=80, max_summary_tokens=50)
ONE, TWO, SIX = (
    Problem(id=f"p{n}", question=f"{n}+{n}", gold=str(2 * n), task="t", verifier="exact") for n in (1, 2, 6)
)
CASCADE = Lineup(drafters=("A",), has_challenge=True, challenger="B")


def _says(prompt, request):
    """A text of its own for every draw, with the answer 7."""
    return f"<think>hm</think>{prompt[:3]}:{request.seed % 100_000}<answer>7</answer>"


def _run(session, problems, lineup, *, samples=1, among=None):
    return play(session, problems, lineup, samples=samples, sampling=SAMPLING, seed=0, stream=("test",), among=among)


def _left(match):
    """What a draft leaves to read."""
    return match.draft.completion.text.partition("</think>")[2].partition("<answer>")[0] + WITHHELD


def test_a_shared_reading_is_that_of_the_problems_first_draft(make_session):
    session, _ = make_session(_says)
    played = _run(session, [ONE, TWO], replace(CASCADE, reads="shared"), samples=3)
    for of_problem in played:
        shown = _left(of_problem[0])
        assert [match.challenge.prompt.text for match in of_problem] == [
            f"{of_problem[0].problem.question}|{shown}"
        ] * 3
        assert {match.summaries[0].text for match in of_problem} == {shown}
        assert len({match.challenge.completion.text for match in of_problem}) == 3
        assert len({match.draft.completion.text for match in of_problem}) == 3


def test_a_draft_that_several_read_is_summarised_once(make_session, monkeypatch):
    session, _ = make_session(_says)
    made = []
    kind = type(session.summarizer)
    own = kind.summarize
    monkeypatch.setattr(kind, "summarize", lambda self, *words, **more: made.append(1) or own(self, *words, **more))
    _run(session, [ONE, TWO], replace(CASCADE, reads="shared"), samples=3)
    assert len(made) == 2


def test_a_placebo_is_the_draft_of_another_problem_with_the_same_number(make_session):
    session, _ = make_session(_says)
    own = _run(session, [TWO, ONE], CASCADE, samples=2)
    played = _run(session, [TWO, ONE], replace(CASCADE, reads="placebo"), samples=2)
    for mine, other, plain in ((played[0], played[1], own[0]), (played[1], played[0], own[1])):
        for sample in range(2):
            question = mine[sample].problem.question
            assert mine[sample].challenge.prompt.text == f"{question}|{_left(other[sample])}"
            # its own draft is that of the cascade, and only what is read differs
            assert mine[sample].drafts == plain[sample].drafts


def test_a_placebo_does_not_depend_on_the_batch(make_session):
    session, engine = make_session(_says)
    lineup, everyone = replace(CASCADE, reads="placebo"), [SIX, TWO, ONE]
    whole = _run(session, everyone, lineup, samples=2)
    engine.requests.clear()
    parts = [_run(session, [problem], lineup, samples=2, among=everyone)[0] for problem in everyone]
    assert parts == whole
    # alone, a problem needs its partner's two drafts beside its own two, and its two challenges
    assert len(engine.requests) == 3 * 6


def test_a_placebo_needs_another_problem(make_session):
    session, _ = make_session(_says)
    with pytest.raises(DataError, match="another problem"):
        _run(session, [ONE], replace(CASCADE, reads="placebo"))


def test_an_empty_draft_is_the_stand_in_whatever_was_drafted(make_session):
    session, _ = make_session(_says)
    ((match,),) = _run(session, [ONE], replace(CASCADE, reads="empty"))
    assert match.challenge.prompt.text == f"1+1|{NO_SUMMARY}"
    assert [summary.is_empty for summary in match.summaries] == [True]
    assert match.draft.verdict.outcome == "wrong"


def test_a_hidden_draft_leaves_the_plain_prompt_with_the_cap_and_the_draws_of_a_challenge(make_session):
    session, engine = make_session(_says)
    ((cascade,),) = _run(session, [ONE], CASCADE)
    ((match,),) = _run(session, [ONE], replace(CASCADE, reads="hidden"))
    assert match.challenge.prompt == match.draft.prompt
    assert match.summaries == ()
    assert [request.max_tokens for request in engine.requests] == [60, 80] * 2
    assert engine.requests[1].seed == engine.requests[3].seed != engine.requests[2].seed
    assert match.drafts == cascade.drafts


def test_a_shown_answer_is_read_and_counts_as_readable(make_session):
    session, _ = make_session(_says)
    ((match,),) = _run(session, [ONE], lineup_for("answer-visible"))
    assert match.challenge.prompt.text.endswith("<answer>7</answer>")
    (summary,) = match.summaries
    assert (summary.shows_answer, summary.has_leak, summary.num_withheld) == (True, True, 0)


def test_a_second_layer_reads_every_draft_of_the_first_and_the_challenge_the_second(make_session):
    session, engine = make_session(_says)
    ((match,),) = _run(session, [ONE], lineup_for("moa", num_drafts=2, layers=2))
    first, second = match.earlier, match.drafts
    assert [attempt.prompt.text for attempt in first] == ["1+1"] * 2
    between = "".join(f"|{summary.text}" for summary in match.earlier_summaries)
    assert [attempt.prompt.text for attempt in second] == [f"1+1{between}"] * 2
    assert match.challenge.prompt.text == "1+1" + "".join(f"|{summary.text}" for summary in match.summaries)
    said = [attempt.completion.text for attempt in match.attempts]
    assert len(set(said)) == 5 == len(engine.requests)
    assert match.attempts == (*first, *second, match.challenge)
    assert [request.max_tokens for request in engine.requests] == [60] * 4 + [80]
    for summary, attempt in zip((*match.earlier_summaries, *match.summaries), (*first, *second), strict=True):
        assert summary.text == attempt.completion.text.partition("</think>")[2].partition("<answer>")[0] + WITHHELD


@pytest.mark.parametrize("lineup", [lineup_for("moa", num_drafts=2, layers=2), lineup_for("answer-visible")])
def test_what_was_read_is_stored_with_the_match(make_session, tmp_path, lineup):
    session, _ = make_session(_says)
    matches = [match for of_problem in _run(session, [ONE, TWO], lineup) for match in of_problem]
    write_matches(tmp_path / "m.jsonl.gz", matches)
    assert list(read_matches(tmp_path / "m.jsonl.gz")) == matches


def test_the_layers_of_one_problem_do_not_mix_with_anothers(make_session):
    session, _ = make_session(_says)
    together = _run(session, [ONE, TWO], lineup_for("moa", num_drafts=2, layers=3), samples=2)
    alone = _run(session, [TWO], lineup_for("moa", num_drafts=2, layers=3), samples=2)
    assert together[1] == alone[0]
    assert [len(match.earlier) for match in alone[0]] == [4, 4]


def test_one_layer_draws_what_it_draws_without_layers(make_session):
    session, engine = make_session(_says)
    _run(session, [ONE], lineup_for("moa", num_drafts=2, layers=2))
    _run(session, [ONE], lineup_for("moa", num_drafts=2))
    seeds = [request.seed for request in engine.requests]
    # two layers of two and a challenge, then one layer and a challenge: first layer and challenge draw the same numbers
    assert seeds[:2] == seeds[5:7]
    assert seeds[4] == seeds[7]
    assert len(set(seeds[:5])) == 5


def _likely(request):
    """By problem: 1+1 is drafted at -0.2 nats a token, everything else at -0.8."""
    return -0.2 if bytes(request.prompt_ids).startswith(b"1+1") else -0.8


def test_only_a_draft_below_the_threshold_is_challenged(make_session):
    session, engine = make_session(_says, logprob=_likely)
    (sure,), (doubtful,) = _run(session, [ONE, TWO], lineup_for("selective", threshold=-0.5))
    assert (sure.challenge, sure.summaries) == (None, ())
    assert sure.final is sure.draft
    assert doubtful.final is doubtful.challenge is not None
    assert len(engine.requests) == 3


def test_a_draft_without_an_answer_is_doubtful_however_likely(make_session):
    session, _ = make_session(lambda prompt, request: "no answer", logprob=lambda request: -0.001)
    ((match,),) = _run(session, [ONE], lineup_for("selective", threshold=-9.0))
    assert match.challenge is not None


def test_drafts_that_do_not_agree_are_challenged_and_else_the_majority_stands(make_session):
    # 1+1 gets 5, 2, 2 (2 of 3 agree), 2+2 gets three different answers (1 of 3)
    answers = iter(["5", "2", "2", "1", "3", "9"])
    session, _ = make_session(
        lambda prompt, request: "<answer>4</answer>" if "|" in prompt else f"<answer>{next(answers)}</answer>"
    )
    lineup = lineup_for("selective", doubt="agreement", num_drafts=3, threshold=0.5)
    (agreed,), (split,) = _run(session, [ONE, TWO], lineup)
    assert (agreed.challenge, agreed.chosen, agreed.final.is_correct) == (None, 1, True)
    assert split.final is split.challenge
    assert split.final.is_correct


# In 64ths, whose means are exact: the edge itself is tried, too.
NATS = st.integers(-192, 0).map(lambda number: number / 64)


@given(likelihoods=st.lists(NATS, min_size=6, max_size=6), threshold=NATS)
@settings(max_examples=25, deadline=None)
def test_a_threshold_moves_a_selective_cascade_from_the_single_answer_to_the_cascade(
    make_session_once, likelihoods, threshold
):
    def played(lineup):
        session, _ = make_session_once(_says, logprob=lambda request: likelihoods[request.seed % 6])
        return [match for of_problem in _run(session, [ONE, TWO, SIX], lineup, samples=2) for match in of_problem]

    single, cascade = played(Lineup(drafters=("A",))), played(CASCADE)
    assert played(lineup_for("selective", threshold=-math.inf)) == single
    assert [match.attempts for match in played(lineup_for("selective", threshold=math.inf))] == [
        match.attempts for match in cascade
    ]
    for match, plain, full in zip(played(lineup_for("selective", threshold=threshold)), single, cascade, strict=True):
        assert match == (full if plain.draft.completion.logprobs[0] < threshold else plain)
