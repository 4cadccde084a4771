from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from agon.errors import EngineError, ModelError, VerifierError
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.prompts.withhold import WITHHELD
from agon.records import Lineup, Problem

SAMPLING = Sampling(max_draft_tokens=200, max_challenge_tokens=200, max_summary_tokens=100)
ONE = Problem(id="p1", question="1+1", gold="2", task="t", verifier="exact")
TWO = Problem(id="p2", question="2+2", gold="4", task="t", verifier="exact")
CASCADE = Lineup(drafters=("A",), has_challenge=True, challenger="B")


def _tagged(summary: str, answer: str) -> str:
    return f"<think>hm</think>{summary}<answer>{answer}</answer>"


def _run(session, problems, lineup, *, samples=1, seed=0, sampling=SAMPLING):
    return play(session, problems, lineup, samples=samples, sampling=sampling, seed=seed, stream=("test",))


def test_challenge_i_reads_the_summary_of_draft_i_and_not_its_reasoning_or_answer(make_session):
    def script(prompt, request):
        if "|" in prompt:
            return _tagged("mine", "2")
        return f"<think>secret {request.seed}</think>path{request.seed % 1000}<answer>7</answer>"

    session, engine = make_session(script)
    ((first, second),) = _run(session, [ONE], CASCADE, samples=2)
    for match in (first, second):
        own = match.draft.completion.text.partition("</think>")[2].partition("<answer>")[0] + WITHHELD
        assert match.summaries[0].text == own
        assert match.challenge.prompt.text == f"1+1|{own}"
        assert "secret" not in match.challenge.prompt.text
        assert "7" not in match.challenge.prompt.text.removeprefix(f"1+1|{own}")
    assert first.draft.completion.text != second.draft.completion.text
    assert [request.adapter for request in engine.requests] == ["A", "A", "B", "B"]


def test_verdicts_belong_to_their_stage(make_session):
    session, _ = make_session(lambda prompt, _: _tagged("s", "2" if "|" in prompt else "3"))
    ((match,),) = _run(session, [ONE], CASCADE)
    assert (match.draft.verdict.outcome, match.challenge.verdict.outcome) == ("wrong", "correct")
    assert match.final is match.challenge
    assert match.draft.format_score == match.challenge.format_score == 1.0


def test_matches_come_problem_by_problem_in_order(make_session):
    session, _ = make_session(lambda prompt, _: _tagged("s", "2" if prompt.startswith("1+1") else "4"))
    played = _run(session, [ONE, TWO], CASCADE, samples=3)
    assert [[(match.problem.id, match.sample) for match in of_problem] for of_problem in played] == [
        [("p1", 0), ("p1", 1), ("p1", 2)],
        [("p2", 0), ("p2", 1), ("p2", 2)],
    ]
    assert all(match.final.is_correct for of_problem in played for match in of_problem)


def test_a_completion_does_not_depend_on_what_is_played_beside_it(make_session):
    session, engine = make_session(lambda prompt, request: _tagged("s", str(request.seed)))
    alone = _run(session, [TWO], CASCADE, samples=2)
    together = _run(session, [ONE, TWO], CASCADE, samples=2)
    assert [match.final.completion for match in alone[0]] == [match.final.completion for match in together[1]]
    assert len({request.seed for request in engine.requests}) == 8  # 4 alone, 8 together of which 4 repeat


def test_another_seed_draws_otherwise(make_session):
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    _run(session, [ONE], CASCADE, seed=0)
    _run(session, [ONE], CASCADE, seed=1)
    assert len({request.seed for request in engine.requests}) == 4


def test_a_truncated_draft_leaves_the_fixed_stand_in(make_session):
    session, _ = make_session(lambda prompt, _: _tagged("s", "2") if "|" in prompt else "<think>" + "x" * 300)
    ((match,),) = _run(session, [ONE], CASCADE)
    assert match.draft.verdict.outcome == "truncated"
    assert match.summaries[0].is_empty
    assert match.draft.format_score == 0.0
    assert match.challenge.prompt.text == f"1+1|{match.summaries[0].text}"


def test_moa_shows_every_draft_to_one_challenger(make_session):
    session, engine = make_session(lambda prompt, request: _tagged(f"n{request.seed}", "2"))
    ((match,),) = _run(session, [ONE], lineup_for("moa", adapter="A", num_drafts=3))
    assert len(match.drafts) == len(match.summaries) == 3
    assert match.challenge.prompt.text == "1+1" + "".join(f"|{summary.text}" for summary in match.summaries)
    assert len({summary.text for summary in match.summaries}) == 3
    assert len(engine.requests) == 4


def test_majority_takes_the_most_frequent_answer_and_the_earliest_of_equals(make_session):
    answers = iter(["3", "2", "5", "2"])
    session, _ = make_session(lambda prompt, request: _tagged("s", next(answers)))
    ((match,),) = _run(session, [ONE], lineup_for("majority", num_drafts=4))
    assert match.chosen == 1
    assert match.final.is_correct
    ties = iter(["9", "2", "9", "2"])
    session, _ = make_session(lambda prompt, request: _tagged("s", next(ties)))
    ((match,),) = _run(session, [ONE], lineup_for("majority", num_drafts=4))
    assert match.chosen == 0


def test_majority_counts_numbers_by_value(make_session):
    answers = iter(["3", "2", "2.0", "7"])
    session, _ = make_session(lambda prompt, request: _tagged("s", next(answers)))
    ((match,),) = _run(session, [ONE], lineup_for("majority", num_drafts=4))
    assert match.chosen == 1


def test_the_likeliest_draft_of_a_pair_stands_whoever_wrote_it(make_session):
    surer = {"A": -0.7, "B": -0.2}
    session, engine = make_session(
        lambda prompt, request: _tagged("s", "2" if request.adapter == "B" else "3"),
        logprob=lambda request: surer[request.adapter],
    )
    ((match,),) = _run(session, [ONE], lineup_for("likeliest", adapter=None))
    assert (match.chosen, match.final.adapter, match.final.is_correct) == (1, "B", True)
    surer["A"] = -0.1
    ((match,),) = _run(session, [ONE], lineup_for("likeliest", adapter=None))
    assert (match.chosen, match.final.adapter, match.final.is_correct) == (0, "A", False)
    # neither reads anything
    assert {request.prompt_ids for request in engine.requests} == {engine.requests[0].prompt_ids}


def test_a_blind_second_pass_reads_nothing_and_counts_the_second(make_session):
    session, engine = make_session(lambda prompt, request: _tagged("s", "2" if request.adapter == "B" else "3"))
    ((match,),) = _run(session, [ONE], lineup_for("blind-second"))
    assert match.final.adapter == "B"
    assert match.final.is_correct
    assert [bytes(request.prompt_ids) for request in engine.requests] == [b"1+1", b"1+1"]


def test_the_base_plays_without_an_adapter(make_session):
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    _run(session, [ONE], lineup_for("moa", is_base=True))
    assert [request.adapter for request in engine.requests] == [None, None]


@pytest.mark.parametrize("fault", ["missing_logprob", "nan_logprob", "wrong_adapter"])
def test_an_unusable_completion_stops_the_match(make_session, fault):
    session, _ = make_session(lambda prompt, request: _tagged("s", "2"), faults={1: fault})
    with pytest.raises(EngineError):
        _run(session, [ONE], CASCADE)


def test_drafts_and_challenges_keep_their_own_caps(make_session):
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    sampling = Sampling(max_draft_tokens=50, max_challenge_tokens=70, max_summary_tokens=20, temperature=0.6, top_p=0.9)
    _run(session, [ONE], CASCADE, sampling=sampling)
    assert [(request.max_tokens, request.temperature, request.top_p) for request in engine.requests] == [
        (50, 0.6, 0.9),
        (70, 0.6, 0.9),
    ]


VARIANTS = {
    "cascade": CASCADE,
    "moa": lineup_for("moa", num_drafts=3),
    "layers": lineup_for("moa", num_drafts=2, layers=3),
    "shared": replace(CASCADE, reads="shared"),
    "placebo": replace(CASCADE, reads="placebo"),
    "empty": replace(CASCADE, reads="empty"),
    "hidden": replace(CASCADE, reads="hidden"),
    "answer-visible": replace(CASCADE, shows_answer=True),
    "likelihood": lineup_for("selective", threshold=-0.5),
    "agreement": lineup_for("selective", doubt="agreement", num_drafts=3, threshold=0.9),
    "placebo-agreement": replace(
        lineup_for("selective", doubt="agreement", num_drafts=2, threshold=0.9), reads="placebo"
    ),
}


@pytest.mark.parametrize("lineup", VARIANTS.values(), ids=VARIANTS)
def test_challenges_that_join_as_drafts_end_give_the_same_matches(make_session, growing_script, lineup):
    def script(prompt, request):
        return _tagged(f"n{request.seed % 997}", "2" if request.seed % 3 else "3")

    staged, _ = make_session(script, logprob=by_seed)
    wanted = _run(staged, [ONE, TWO], lineup, samples=4)
    session, engine = make_session(script, logprob=by_seed)
    session.engine = growing_script(engine)
    assert _run(session, [ONE, TWO], lineup, samples=4) == wanted
    is_grown = lineup.layers == 1
    assert session.engine.asked_adapters == ({*lineup.drafters, lineup.challenger} if is_grown else None)


def by_seed(request):
    """Likelihoods between -1 and 0, so that a threshold of -0.5 parts them."""
    return -(request.seed % 1000) / 1000


@pytest.mark.parametrize("lineup", [CASCADE, lineup_for("moa", adapter="A", num_drafts=3)])
def test_a_challenge_is_sampled_before_the_last_draft_is(make_session, growing_script, lineup):
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    session.engine = growing_script(engine)
    _run(session, [ONE, TWO], lineup, samples=4)
    kinds = ["|" in chr_text(request) for request in engine.requests]
    assert kinds.index(True) < len(kinds) - 1 - kinds[::-1].index(False)


def chr_text(request):
    return "".join(chr(token) for token in request.prompt_ids)


def test_a_completion_is_checked_while_others_are_still_sampled(make_session):
    checked = threading.Event()
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    own_verify, own_generate = session.verifiers.verify, engine.generate

    def verify(pairs, style):
        checked.set()
        return own_verify(pairs, style)

    def generate(requests, on_finish=None):
        first = own_generate(requests[:1], on_finish)
        assert checked.wait(10), "the first completion was not checked before the second was sampled"
        rest = own_generate(requests[1:], lambda index, completion: on_finish(index + 1, completion))
        return first + rest

    session.verifiers.verify, engine.generate = verify, generate
    ((match, other),) = _run(session, [ONE], Lineup(drafters=("A",)), samples=2)
    assert match.final.is_correct
    assert other.final.is_correct


def test_a_challenge_is_written_while_drafts_are_still_sampled(make_session):
    written = threading.Event()
    session, engine = make_session(lambda prompt, request: _tagged("s", "2"))
    own_challenge, own_generate = session.prompts.challenge, engine.generate

    def challenge(problem, summaries):
        written.set()
        return own_challenge(problem, summaries)

    def generate(requests, on_finish=None):
        if written.is_set():  # the challenges
            return own_generate(requests, on_finish)
        first = own_generate(requests[:1], on_finish)
        assert written.wait(10), "the first challenge was not written before the second draft was sampled"
        rest = own_generate(requests[1:], lambda index, completion: on_finish(index + 1, completion))
        return first + rest

    session.prompts.challenge, engine.generate = challenge, generate
    ((match, other),) = _run(session, [ONE], CASCADE, samples=2)
    assert match.final.is_correct
    assert other.final.is_correct


def test_a_prompt_that_cannot_be_written_stops_the_match(make_session):
    session, _ = make_session(lambda prompt, request: _tagged("s", "2"))

    def challenge(problem, summaries):
        raise ModelError("the chat template of this tokenizer fails")

    session.prompts.challenge = challenge
    with pytest.raises(ModelError, match="template"):
        _run(session, [ONE], CASCADE)


def test_a_checker_that_raises_stops_the_match(make_session):
    session, _ = make_session(lambda prompt, request: _tagged("s", "2"))

    def verify(pairs, style):
        raise VerifierError("the checker is gone")

    session.verifiers.verify = verify
    with pytest.raises(VerifierError, match="gone"):
        _run(session, [ONE], CASCADE)
