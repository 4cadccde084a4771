from __future__ import annotations

import pytest

from agon.methods.registry import method_named
from agon.records import Lineup
from agon.serve.models import chosen_direction, direction_of, run_models


def players(models):
    return {
        name: (lineup.drafters, lineup.challenger if lineup.has_challenge else "-") for name, lineup in models.items()
    }


def test_a_pair_offers_both_directions_a_draft_of_each_adapter_and_each_player_alone():
    assert players(run_models(method_named("agon"), "a-b")) == {
        "cascade": (("A",), "B"),
        "cascade-b-a": (("B",), "A"),
        "likeliest": (("A", "B"), "-"),
        "drafter": (("A",), "-"),
        "challenger": (("B",), "-"),
        "base": ((None,), "-"),
    }


def test_roles_follow_the_default_direction():
    models = run_models(method_named("agon"), "b-a")
    assert players(models) == {
        "cascade": (("B",), "A"),
        "cascade-a-b": (("A",), "B"),
        "likeliest": (("A", "B"), "-"),
        "drafter": (("B",), "-"),
        "challenger": (("A",), "-"),
        "base": ((None,), "-"),
    }
    assert next(iter(models)) == "cascade"


def test_a_run_of_one_adapter_offers_its_self_cascade_and_two_drafts_of_it():
    for method in ("grpo", "self-refine"):
        assert players(run_models(method_named(method), "a-b")) == {
            "cascade": (("A",), "A"),
            "likeliest": (("A", "A"), "-"),
            "drafter": (("A",), "-"),
            "base": ((None,), "-"),
        }


def test_of_the_two_drafts_the_likeliest_stands():
    for method in ("agon", "grpo"):
        models = run_models(method_named(method), "a-b")
        assert {name for name, lineup in models.items() if lineup.stands == "likeliest"} == {"likeliest"}


def test_a_pair_that_was_trained_with_the_answer_shown_is_served_so():
    models = run_models(method_named("answer-visible"), "a-b")
    assert models["cascade"].shows_answer
    assert models["cascade-b-a"].shows_answer
    assert not run_models(method_named("agon"), "a-b")["cascade"].shows_answer


@pytest.mark.parametrize(
    ("lineup", "direction"),
    [
        (Lineup(("A",), has_challenge=True, challenger="B"), "a-b"),
        (Lineup(("B",), has_challenge=True, challenger="A"), "b-a"),
        (Lineup(("A",), has_challenge=True, challenger="A"), None),
        (Lineup(("A",)), None),
        (Lineup((None,)), None),
    ],
)
def test_a_direction_is_that_of_two_adapters(lineup, direction):
    assert direction_of(lineup) == direction


PROMPTS = {"wording": "plain-v1", "withholding": "mark", "answer_style": "tags"}


def evaluated(direction, dev_accuracy, *, protocol="cascade", task="math"):
    return {"task": task, "protocol": protocol, "direction": direction, "dev_accuracy": dev_accuracy}


def test_the_direction_is_the_one_that_did_best_on_development_problems():
    assert chosen_direction([], task="math", prompts=PROMPTS) is None
    assert chosen_direction([evaluated("b-a", 0.5)], task="math", prompts=PROMPTS) == "b-a"
    assert chosen_direction([evaluated("a-b", 0.25), evaluated("b-a", 0.5)], task="math", prompts=PROMPTS) == "b-a"
    assert chosen_direction([evaluated("b-a", 0.5, protocol="answer-visible")], task="math", prompts=PROMPTS) == "b-a"
    asked = evaluated("b-a", 0.5) | {"prompts": PROMPTS}
    assert chosen_direction([asked], task="math", prompts=PROMPTS) == "b-a"


def test_what_was_not_chosen_there_or_is_of_another_task_says_nothing():
    others = [
        evaluated("b-a", None),
        evaluated(None, 0.9),
        evaluated("b-a", 0.9, protocol="placebo"),
        evaluated("b-a", 0.9, task="gsm8k"),
        evaluated("b-a", 0.9) | {"prompts": PROMPTS | {"withholding": "drop"}},
        evaluated("b-a", 0.9) | {"notes": ["measured with task.withholding=drop, trained with mark"]},
        {"label": "half written"},
    ]
    assert chosen_direction(others, task="math", prompts=PROMPTS) is None
