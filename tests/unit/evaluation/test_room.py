from __future__ import annotations

from dataclasses import replace

import pytest

from agon.config import Settings
from agon.errors import ConfigError
from agon.evaluation.load import Opened
from agon.evaluation.room import require_room, with_doubled_caps
from agon.records import Lineup, Problem
from agon.tasks.data import TaskData

# Questions of 2 and 12 tokens, one a character.
PROBLEMS = tuple(
    Problem(id=question, question=question, gold="1", task="t", verifier="exact") for question in ("q0", "q0123456789a")
)
CAPS = {"max_draft_tokens": 60, "max_challenge_tokens": 30, "max_summary_tokens": 20}


@pytest.fixture
def opened_with(make_session):
    session, engine = make_session(lambda prompt, request: "1", logprob=lambda request: -0.1)
    settings = Settings.model_validate({"task": {"name": "countdown-lite"}, "rollout": CAPS})
    return Opened(session, TaskData(name="t", train=(), dev=(), test=PROBLEMS), settings), engine


def test_both_caps_are_doubled_and_nothing_else(opened_with):
    opened, engine = opened_with
    engine.context_length = 12 + 120
    doubled = with_doubled_caps(opened, PROBLEMS)
    rollout = opened.settings.rollout.model_copy(update={"max_draft_tokens": 120, "max_challenge_tokens": 60})
    assert doubled == replace(opened, settings=opened.settings.model_copy(update={"rollout": rollout}))


def test_a_doubled_cap_that_leaves_no_room_is_refused_with_the_number_of_problems(opened_with):
    opened, engine = opened_with
    engine.context_length = 12 + 120 - 1
    message = "a doubled cap leaves no room in the context of 131 tokens for 1 of 2 problems: leave it out"
    with pytest.raises(ConfigError, match=message):
        with_doubled_caps(opened, PROBLEMS)
    # only what is played counts
    with_doubled_caps(opened, PROBLEMS[:1])


def test_every_summary_that_is_shown_needs_room(opened_with):
    opened, engine = opened_with
    mixture = Lineup(drafters=("A",) * 4, has_challenge=True, challenger="A")
    # four summaries of 20, each behind a bar, and a challenge of 30
    engine.context_length = 12 + 4 * 21 + 30
    require_room(opened, mixture, PROBLEMS)
    engine.context_length -= 1
    with pytest.raises(
        ConfigError,
        match="reading 4 drafts leaves no room in the context of 125 tokens for 1 of 2 problems: take fewer, or lower",
    ):
        require_room(opened, mixture, PROBLEMS)
    # a draft of 60 that reads the four
    engine.context_length = 12 + 4 * 21 + 60 - 1
    with pytest.raises(ConfigError, match="reading 4 drafts in 3 layers leaves no room"):
        require_room(opened, replace(mixture, layers=3), PROBLEMS)
    require_room(opened, replace(mixture, drafters=("A",)), PROBLEMS)
