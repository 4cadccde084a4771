from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agon.errors import ConfigError
from agon.evaluation.load import Opened
from agon.evaluation.request import Wish, check_ahead, measure, possible_measurements, prepare
from agon.recipe import settings_from
from agon.records import PROTOCOLS, Problem
from agon.runs.evaluations import check_label
from agon.tasks.data import TaskData

DEV, TEST = (
    tuple(Problem(id=f"{split}{n}", question=f"q{n}", gold="1", task="t", verifier="exact") for n in range(count))
    for split, count in (("dev", 4), ("test", 6))
)
TASK = TaskData(name="t", train=(), dev=DEV, test=TEST)
VARIANTS = ("placebo", "empty-draft", "answer-visible", "selective")


def _says(prompt, request):
    """Drafts are right for even problems; B's challenges for all, A's for none."""
    number, is_challenge = int(prompt[1]), "|" in prompt
    is_right = request.adapter == "B" if is_challenge else number % 2 == 0
    return f"tried {number}<answer>{1 if is_right else 7}</answer>"


@pytest.fixture
def opened_of(make_session):
    """Return a function (method or None for a base) -> what a run of that method would be opened as."""

    def make(method, task=TASK, **evaluation):
        session, engine = make_session(_says, logprob=lambda request: -(request.prompt_ids[1] - ord("0")) / 8)
        caps = {"max_draft_tokens": 60, "max_challenge_tokens": 60, "max_summary_tokens": 50}
        tree = {
            "task": {"name": "countdown-lite"},
            "rollout": caps,
            "train": {"method": method or "agon"},
            "evaluation": evaluation,
        }
        checkpoint = None if method is None else Path("run/checkpoints/step-000004")
        return Opened(session, task, settings_from(tree, source="test"), checkpoint), engine

    return make


@pytest.mark.parametrize(
    ("method", "protocol", "players"),
    [
        (None, "single", (None, None)),
        ("grpo", "single", ("A", None)),
        ("self-refine", "self-cascade", ("A", "A")),
        ("cooperative", "cascade", ("A", "B")),
        ("agon", "cascade", ("A", "B")),
        ("answer-visible", "answer-visible", ("A", "B")),
    ],
)
def test_what_was_trained_is_measured_as_it_was_trained(opened_of, method, protocol, players):
    opened, _ = opened_of(method)
    measured = measure(opened, Wish())
    result = measured.result
    assert result["protocol"] == protocol
    match = measured.matches[0][0]
    assert (match.draft.adapter, None if match.challenge is None else match.challenge.adapter) == players
    assert result["method"] == method


@pytest.mark.parametrize("protocol", VARIANTS)
def test_a_pair_trained_without_them_can_be_measured_in_every_variant(opened_of, protocol):
    opened, _ = opened_of("agon")
    result = measure(opened, Wish(protocol=protocol)).result
    # B's challenges are right
    assert (result["protocol"], result["direction"], result["dev_accuracy"]) == (protocol, "a-b", 1.0)
    assert result["players"] == {"drafters": ["A"], "challenger": "B"}
    assert any(note.startswith("direction a-b chosen on 4 development problems") for note in result["notes"])
    assert result["lineup"]["shows_answer"] == (protocol == "answer-visible")


@pytest.mark.parametrize("protocol", VARIANTS)
@pytest.mark.parametrize(("method", "adapter", "player"), [("grpo", None, "A"), ("agon", "b", "B"), (None, None, None)])
def test_one_player_can_play_both_stages_of_a_variant(opened_of, protocol, method, adapter, player):
    opened, _ = opened_of(method)
    measured = measure(opened, Wish(protocol=protocol, adapter=adapter))
    assert measured.result["direction"] is None
    assert measured.result["label"].startswith(f"t-test-{protocol}-{(player or 'base').lower()}")
    assert {attempt.adapter for of in measured.matches for match in of for attempt in match.attempts} == {player}


def test_a_threshold_is_chosen_on_the_development_problems_and_said(opened_of):
    opened, _ = opened_of("agon")
    measured = measure(opened, Wish(protocol="selective", direction="a-b"))
    # Dev problems 0..3 with likelihoods 0, -1/8, -2/8, -3/8, drafts of 0 and 2 right, every challenge right: all right once 1 and 3
    # are challenged, that is below 0.
    assert measured.result["lineup"]["threshold"] == 0.0
    assert measured.result["dev_accuracy"] == 1.0
    assert "threshold 0 of likelihood chosen on 4 development problems" in measured.result["notes"][1]
    # of six test problems all but the one at 0
    assert measured.result["challenged_share"] == pytest.approx(5 / 6)
    assert not any("flatters" in note for note in measured.result["notes"])


def test_a_threshold_measured_where_it_was_chosen_is_said_to_flatter(opened_of):
    opened, _ = opened_of("agon")
    result = measure(opened, Wish(protocol="selective", direction="a-b", split="dev")).result
    assert any("flatters" in note for note in result["notes"])


def test_a_given_threshold_is_not_chosen(opened_of):
    opened, engine = opened_of("agon")
    result = measure(opened, Wish(protocol="selective", direction="b-a", threshold=-0.2)).result
    # below -0.2 are the drafts of problems 2..5; A's challenges are never right
    assert (result["challenged_share"], result["accuracy"]) == (pytest.approx(4 / 6), pytest.approx(1 / 6))
    assert result["dev_accuracy"] is None
    # six drafts, four challenges, and the blind pass where a wrong draft was challenged: 3 and 5
    assert len(engine.requests) == 6 + 4 + 2


def test_direction_and_threshold_are_chosen_from_the_same_matches(opened_of):
    opened, engine = opened_of("agon")
    measure(opened, Wish(protocol="selective"))
    # dev: both directions of four cascades, once; test: six drafts, five challenges; three blind
    assert len(engine.requests) == 16 + 6 + 5 + 3


def test_a_control_takes_the_direction_of_the_cascade(opened_of):
    opened, engine = opened_of("agon")
    measure(opened, Wish(protocol="empty-draft"))
    assert sum(bytes(request.prompt_ids).endswith(b"(no summary)") for request in engine.requests) == len(TEST)


def test_the_likeliest_of_a_pair_has_a_draft_of_each_and_no_direction(opened_of):
    opened, engine = opened_of("agon")
    result = measure(opened, Wish(protocol="likeliest")).result
    assert [request.adapter for request in engine.requests] == ["A", "B"] * len(TEST)
    assert (result["direction"], result["label"]) == (None, "t-test-likeliest-a-b-k2")
    assert result["players"] == {"drafters": ["A", "B"], "challenger": None}
    result = measure(opened, Wish(protocol="likeliest", adapter="b", num_drafts=3)).result
    assert (result["label"], result["players"]["drafters"]) == ("t-test-likeliest-b-k3", ["B"] * 3)
    with pytest.raises(
        ConfigError, match="--direction b-a does not go with --protocol likeliest: choose with --adapter"
    ):
        measure(opened, Wish(protocol="likeliest", direction="b-a"))


@pytest.mark.parametrize(("method", "player"), [("grpo", "A"), (None, None)])
def test_the_likeliest_of_one_player_needs_no_development_problems(opened_of, method, player):
    opened, engine = opened_of(method, replace(TASK, dev=()))
    result = measure(opened, Wish(protocol="likeliest")).result
    assert (result["direction"], {request.adapter for request in engine.requests}) == (None, {player})
    assert len(engine.requests) == 2 * len(TEST)


def test_agreement_takes_two_drafts_and_layers_take_as_many_as_they_are_told(opened_of):
    opened, _ = opened_of("grpo")
    agreement = measure(opened, Wish(protocol="selective", doubt="agreement", threshold=1.0)).result
    assert agreement["players"]["drafters"] == ["A", "A"]
    layered = measure(opened, Wish(protocol="moa", num_drafts=2, layers=2)).result
    assert (layered["lineup"]["layers"], layered["label"]) == (2, "t-test-moa-a-k2-l2")


WISHES = [
    *(Wish(protocol=name) for name in PROTOCOLS),
    *(Wish(protocol=name, adapter="b") for name in ("single", "self-cascade", *VARIANTS)),
    *(Wish(protocol=name, direction="b-a") for name in ("cascade", "blind-second", *VARIANTS)),
    Wish(protocol="moa", num_drafts=2),
    Wish(protocol="moa", num_drafts=2, layers=2),
    Wish(protocol="moa", layers=3),
    Wish(protocol="majority", num_drafts=3),
    Wish(protocol="selective", doubt="agreement"),
    Wish(protocol="selective", doubt="agreement", num_drafts=4, threshold=0.5),
    Wish(protocol="selective", threshold=-0.25),
    Wish(protocol="selective", threshold=float("-inf")),
    Wish(protocol="selective", num_drafts=2, threshold=-0.25),
    Wish(protocol="single", split="dev"),
    Wish(protocol="single", has_doubled_cap=True),
    Wish(protocol="cascade", direction="b-a", has_doubled_cap=True),
]


def test_default_labels_tell_every_protocol_apart(opened_of):
    opened, _ = opened_of("agon")
    labels = [measure(opened, wish).result["label"] for wish in WISHES]
    for label in labels:
        check_label(label)
    assert len(set(labels)) == len(labels), sorted(labels)


@pytest.mark.parametrize("name", ["reasoning-gym/gcd", "own_task:rows"])
def test_a_default_label_of_any_task_can_be_a_file_name(opened_of, name):
    opened, _ = opened_of("agon", replace(TASK, name=name))
    check_label(measure(opened, Wish(protocol="single")).result["label"])


def test_the_end_of_a_long_task_gives_way_in_a_default_label(opened_of):
    opened, _ = opened_of("agon", replace(TASK, name="t" * 90))
    assert measure(opened, Wish(protocol="single")).result["label"] == "t" * 86 + "-test-single-a"
    label = measure(opened, Wish(protocol="cascade", direction="a-b", has_doubled_cap=True)).result["label"]
    assert label == "t" * 71 + "-test-cascade-a-b-doubled-cap"


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({}, "t-test-cascade-a-b"),
        ({"withholding": "mark"}, "t-test-cascade-a-b-withholding-mark"),
        ({"wording": "plain-v3", "withholding": "drop"}, "t-test-cascade-a-b-wording-plain-v3-withholding-drop"),
        ({"answer_style": "boxed"}, "t-test-cascade-a-b-answer_style-boxed"),
        ({"temperature": "0", "max_draft_tokens": "64"}, "t-test-cascade-a-b-temperature-0-max_draft_tokens-64"),
        # a task whose answers are programs has no other style
        ({"answer_style": "code"}, "t-test-cascade-a-b"),
    ],
)
def test_a_default_label_says_what_is_not_as_the_run_has_it(opened_of, changed, label):
    opened, _ = opened_of("agon")
    wish = Wish(protocol="cascade", direction="a-b")
    assert measure(replace(opened, changed=changed), wish).result["label"] == label
    named = replace(wish, label="mine")
    assert measure(replace(opened, changed=changed), named).result["label"] == "mine"


def test_a_result_says_how_players_were_asked(opened_of):
    opened, _ = opened_of("agon")
    task = opened.settings.task.model_copy(update={"withholding": "drop"})
    asked = replace(opened, settings=opened.settings.model_copy(update={"task": task}))
    for wish in (Wish(protocol="cascade", direction="a-b"), Wish(protocol="single", adapter="base")):
        result = measure(asked, wish).result
        assert result["prompts"] == {
            "wording": task.wording,
            "withholding": "drop",
            "answer_style": task.answer_style,
        }


def test_what_makes_a_default_label_too_long_still_tells_it_from_others(opened_of):
    opened, _ = opened_of("agon", samples=2)
    changed = {"wording": "symbols-v1", "withholding": "drop", "answer_style": "boxed"}
    labels = set()
    for step in (4, 8):
        chosen = replace(
            opened,
            checkpoint=Path(f"run/checkpoints/step-00000{step}"),
            is_chosen_checkpoint=True,
            changed=changed,
        )
        wish = Wish(protocol="selective", direction="a-b", threshold=-1.234e-5, has_doubled_cap=True)
        label = measure(chosen, wish).result["label"]
        check_label(label)
        labels.add(label)
    assert len(labels) == 2


@pytest.mark.parametrize(
    ("method", "wish", "message"),
    [
        ("agon", Wish(protocol="cascade", layers=2), "the number of layers is 2, but cascade"),
        ("agon", Wish(protocol="moa", layers=0), "the number of layers is 0"),
        ("agon", Wish(protocol="cascade", doubt="agreement"), "a doubt by agreement .* only selective"),
        ("agon", Wish(protocol="cascade", threshold="dev"), "--threshold dev .* cascade has none"),
        ("agon", Wish(protocol="cascade", threshold=float("inf")), "--threshold inf .* cascade has none"),
        ("agon", Wish(protocol="placebo", num_drafts=2), "the number of drafts is 2"),
        ("agon", Wish(protocol="selective", doubt="agreement", num_drafts=1), "needs 2 or more"),
        ("agon", Wish(protocol="placebo", adapter="a", direction="b-a"), "--adapter a plays both roles"),
        (
            "grpo",
            Wish(protocol="placebo", direction="b-a"),
            "--direction b-a does not go with --protocol placebo: leave it out",
        ),
        (
            None,
            Wish(protocol="single", direction="a-b"),
            "--direction a-b was asked for, but the base .*: leave it out",
        ),
        ("grpo", Wish(protocol="cascade"), "needs two trained adapters"),
        (None, Wish(protocol="placebo", direction="b-a"), "the base plays every part"),
        (None, Wish(protocol="placebo", adapter="a"), "a base model has no adapters"),
    ],
)
def test_a_wish_that_contradicts_itself_is_refused_before_a_model_is_loaded(opened_of, method, wish, message):
    opened, _ = opened_of(method)
    with pytest.raises(ConfigError, match=message):
        check_ahead(wish, opened.settings, TASK, is_trained=method is not None)
    with pytest.raises(ConfigError, match=message):
        measure(opened, wish)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(protocol="selective", direction="a-b"), "give a number as --threshold"),
        (Wish(protocol="selective", threshold=-1.0), "choose with --direction"),
        (Wish(protocol="placebo"), "choose with --direction"),
    ],
)
def test_what_is_chosen_on_development_problems_needs_some(opened_of, wish, message):
    task = replace(TASK, dev=())
    opened, _ = opened_of("agon", task)
    with pytest.raises(ConfigError, match=message):
        check_ahead(wish, opened.settings, task, is_trained=True)
    with pytest.raises(ConfigError, match=message):
        measure(opened, wish)


def test_at_temperature_0_there_is_no_doubt(opened_of):
    opened, _ = opened_of("agon", temperature=0.0)
    for protocol in ("selective", "likeliest"):
        with pytest.raises(
            ConfigError, match=rf"evaluation\.temperature is 0, .* {protocol} needs a temperature above 0"
        ):
            check_ahead(Wish(protocol=protocol), opened.settings, TASK, is_trained=True)


def test_layers_need_room_for_what_they_read_and_write(opened_of):
    # Tokens: a question 2, two summaries of 20 with a bar before each 42, a draft 60, a challenge 10. The challenge of one layer needs
    # 54, a draft of the second 104.
    opened, engine = opened_of("grpo")
    caps = {"max_draft_tokens": 60, "max_challenge_tokens": 10, "max_summary_tokens": 20}
    settings = opened.settings.model_copy(update={"rollout": opened.settings.rollout.model_copy(update=caps)})
    opened, wish = replace(opened, settings=settings), Wish(protocol="moa", num_drafts=2, layers=2)
    engine.context_length = 104
    measure(opened, wish)
    engine.context_length = 103
    measure(opened, replace(wish, layers=1))
    with pytest.raises(ConfigError, match="the context of 103 tokens leaves 1 for a prompt, but the shortest needs 2"):
        measure(opened, wish)


def test_a_doubled_cap_gives_every_completion_twice_the_tokens(opened_of):
    opened, engine = opened_of("agon")
    result = measure(opened, Wish(protocol="cascade", direction="a-b", has_doubled_cap=True)).result
    assert {request.max_tokens for request in engine.requests} == {120}
    assert result["label"] == "t-test-cascade-a-b-doubled-cap"
    assert (result["doubled_cap"], result["caps"]) == (True, {"draft": 120, "challenge": 120, "summary": 50})
    # what it was opened with stays as it was
    result = measure(opened, Wish(protocol="single")).result
    assert engine.requests[-1].max_tokens == 60
    # a single answer has no challenge
    assert (result["doubled_cap"], result["caps"]) == (False, {"draft": 60, "challenge": None, "summary": None})


def test_what_does_not_fit_is_found_without_sampling(opened_of):
    # A question takes 2 tokens, a draft 60, of a doubled cap 120; a challenge 60 with a summary of 50 behind a bar.
    opened, engine = opened_of("grpo")
    wish = Wish(protocol="single", has_doubled_cap=True)
    engine.context_length = 200
    prepare(opened, wish)
    engine.context_length = 121
    prepare(opened, replace(wish, has_doubled_cap=False))
    with pytest.raises(ConfigError, match="the context of 121 tokens leaves"):
        prepare(opened, wish)
    assert engine.requests == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Wish(protocol="single"), Wish(protocol="single", adapter="a")),
        (Wish(protocol="majority"), Wish(protocol="majority", num_drafts=2)),
        (Wish(protocol="cascade"), Wish(protocol="cascade", direction="b-a")),
        (Wish(protocol="selective"), Wish(protocol="selective", direction="a-b", doubt="likelihood")),
        (Wish(protocol="single", split="dev"), Wish(protocol="single", split="dev", adapter="a")),
    ],
)
def test_two_ways_to_ask_for_one_measurement_are_known_as_such(opened_of, first, second):
    settings = opened_of("agon")[0].settings
    one, other = (possible_measurements(wish, settings, is_trained=True) for wish in (first, second))
    assert set(one) & set(other)


def test_wishes_that_are_filed_apart_measure_nothing_in_common(opened_of):
    settings = opened_of("agon")[0].settings
    # without those whose direction is open, which may come to one that is given, and thresholds, which are looked at later
    apart = [wish for wish in WISHES if wish.protocol in ("single", "self-cascade", "moa", "majority")]
    found = [possible_measurements(wish, settings, is_trained=True) for wish in apart]
    assert sum(map(len, found)) == len(set().union(*found)) == len(apart)
