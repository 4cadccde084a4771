"""Each alarm is provoked once, and each has a near miss that must not sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.config import AlarmSettings
from agon.methods.registry import method_named
from agon.train.alarms import Alarms
from agon.train.rules import RULES

OWN = AlarmSettings()
GOOD = {
    "accuracy": 0.5,
    "tokens_mean": 30.0,
    "truncated_share": 0.0,
    "unparsed_share": 0.0,
    "entropy": 0.3,
    "dead_group_share": 0.2,
    "tokens_learned": 900,
}


def _row(step, *, draft=(), challenge=None, **others):
    """One line: good numbers, and what is changed in them. A challenge only where one is given."""
    row = {"step": step, **others}
    for family, changed in (("draft", draft), ("challenge", challenge)):
        if changed is not None:
            row |= {f"{family}/{name}": value for name, value in {**GOOD, **dict(changed)}.items()}
    return row


def _alone(*stretches):
    """Lines of a lone drafter: (number of steps, changed numbers), one stretch after the other."""
    changes = [changed for count, changed in stretches for _ in range(count)]
    return [_row(step, draft=changed) for step, changed in enumerate(changes)]


def _sounded(rows, method="grpo", own=OWN):
    """Return (name, about, first step in which it sounded, since) of every spell, in order."""
    alarms = Alarms(own, lineup=method_named(method).lineup)
    spells = {}
    for row in rows:
        for alarm in alarms.see(row):
            spells.setdefault((alarm.name, alarm.about, alarm.since), alarm)
    return [(name, about, alarm.step, since) for (name, about, since), alarm in spells.items()]


CUT = {"truncated_share": 1.0, "accuracy": 0.0}
GARBAGE = {"unparsed_share": 0.6, "truncated_share": 0.36, "accuracy": 0.0}
STUCK = {"tokens_learned": 0, "entropy": None, "accuracy": 0.0}


@pytest.mark.parametrize(
    ("name", "bad", "miss"),
    [
        # 5 steps in a row; one completion of 256 that ended is enough to be silent.
        ("all-truncated", _alone((5, CUT)), _alone((9, {**CUT, "truncated_share": 255 / 256}))),
        ("truncated", _alone((5, {"truncated_share": 0.5})), _alone((9, {"truncated_share": 0.49}))),
        (
            "all-empty",
            _alone((5, {"tokens_mean": 1.2})),
            _alone((9, {"tokens_mean": 2.0, "truncated_share": 0.6}), (9, {"tokens_mean": 2.1})),
        ),
        # Readable .04 after 1: a tenth of the best is .1. Readable .04 after .16: the base never kept to the format.
        (
            "format-lost",
            _alone((1, {}), (5, GARBAGE)),
            _alone((3, {"unparsed_share": 0.84}), (9, GARBAGE)),
        ),
        # .02 of .3 nats; a base that has .03 from the start has not collapsed, nor has .03 fallen to .02.
        (
            "entropy-collapse",
            _alone((5, {}), (5, {"entropy": 0.02})),
            _alone((5, {"entropy": 0.03}), (9, {"entropy": 0.02})),
        ),
        # Four times as long and no better; four times as long and more often right.
        (
            "length-explosion",
            _alone((5, {}), (5, {"tokens_mean": 120.0})),
            _alone((5, {}), (9, {"tokens_mean": 120.0, "accuracy": 0.6}), (9, {"tokens_mean": 89.0})),
        ),
        ("engine-gap", _alone((5, {"logprob_gap_mean": 0.05})), _alone((9, {"logprob_gap_mean": 0.049}))),
        ("dead-groups", _alone((10, {"dead_group_share": 0.9})), _alone((19, {"dead_group_share": 0.89}))),
        # Nothing learned at half of the drafts right is a task that is solved.
        ("nothing-learned", _alone((20, STUCK)), _alone((29, {**STUCK, "accuracy": 0.5}))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_alarm_of_one_adapter_is_provoked_and_has_a_near_miss(name, bad, miss):
    assert name in [found[0] for found in _sounded(bad)]
    assert name not in [found[0] for found in _sounded(bad[:-1])], "it needs every one of these steps"
    assert name not in [found[0] for found in _sounded(miss)]


def _paired(count, *, empty=0.1, distance=1.2, draft=(), challenge=()):
    numbers = {"match/empty_summary_share": empty, "pair/distance": distance}
    return [_row(step, draft=draft, challenge=challenge, **numbers) for step in range(count)]


def test_empty_summaries_sound_where_drafts_are_wrong_and_not_where_a_right_one_has_nothing_to_say():
    # Roles swap: the fifth step of B as challenger is step 8, that of A step 9.
    assert _sounded(_paired(10, empty=0.96, draft={"accuracy": 0.2}), "agon") == [
        ("empty-summaries", "B as challenger", 8, 0),
        ("empty-summaries", "A as challenger", 9, 1),
    ]
    assert _sounded(_paired(30, empty=0.96, draft={"accuracy": 0.96}), "agon") == []
    assert _sounded(_paired(30, empty=0.94, draft={"accuracy": 0.2}), "agon") == []


def test_two_adapters_that_have_become_one_sound_and_two_that_are_near_do_not():
    assert _sounded(_paired(5, distance=0.2), "agon") == [("pair-alike", "the run", 4, 0)]
    assert _sounded(_paired(30, distance=0.21), "agon") == []


def test_one_adapter_that_collapsed_is_found_though_roles_swap():
    # A drafts in even steps, challenges in odd ones: bad in either role from step 4 on, while B is fine.
    rows = [
        _row(step, draft=GARBAGE if step % 2 == 0 else (), challenge=GARBAGE if step % 2 else ())
        if step >= 4
        else _row(step, challenge=())
        for step in range(14)
    ]
    assert _sounded(rows, "agon") == [
        ("format-lost", "A as drafter", 12, 4),
        ("format-lost", "A as challenger", 13, 5),
    ]


def test_a_challenger_that_learns_counts_as_learning():
    rows = [_row(step, draft=STUCK, challenge={"tokens_learned": 1}) for step in range(30)]
    assert _sounded(rows, "agon") == []
    rows = [_row(step, draft=STUCK, challenge=STUCK) for step in range(20)]
    assert [found[0] for found in _sounded(rows, "agon")] == ["nothing-learned"]


def test_a_spell_is_one_until_as_many_good_steps():
    bad, good = {"truncated_share": 0.7}, {}
    # 5 bad, 4 good, 1 bad: the same spell. 5 good, 5 bad: another.
    rows = _alone((5, bad), (4, good), (1, bad), (5, good), (4, bad))
    assert _sounded(rows) == [("truncated", "A as drafter", 4, 0)]
    assert _sounded([*rows, _row(19, draft=bad)]) == [
        ("truncated", "A as drafter", 4, 0),
        ("truncated", "A as drafter", 19, 15),
    ]


def test_a_step_without_the_number_is_no_evidence_either_way():
    nothing = {"entropy": None}
    low = {"entropy": 0.01}
    assert _sounded(_alone((5, {}), (4, low), (9, nothing), (1, low))) == [("entropy-collapse", "A as drafter", 18, 5)]
    assert _sounded(_alone((5, {}), (4, low), (9, nothing))) == []


def test_only_what_was_not_so_from_the_first_step_on_is_broken():
    def broken(rows):
        alarms = Alarms(OWN, lineup=method_named("grpo").lineup)
        return [alarm.is_broken for row in rows for alarm in alarms.see(row) if alarm.name == "all-truncated"]

    assert broken(_alone((5, CUT))) == [False]
    assert broken(_alone((1, {}), (5, CUT))) == [True]


def test_a_near_miss_of_all_truncated_is_said_to_be_much_truncated_and_all_is_said_once():
    assert [found[0] for found in _sounded(_alone((5, {**CUT, "truncated_share": 0.99})))] == ["truncated"]
    assert [found[0] for found in _sounded(_alone((5, CUT)))] == ["all-truncated"]
    # .99 and 1 in turn: neither of the two is said of the other's steps, but the first has five of its own.
    turns = _alone(*[(1, {**CUT, "truncated_share": share}) for share in (0.99, 1.0) * 5])
    assert _sounded(turns) == [("truncated", "A as drafter", 8, 0)]
    own = AlarmSettings(all_truncated="off")
    assert [found[0] for found in _sounded(_alone((5, CUT)), own=own)] == ["truncated"]


def test_limits_and_steps_are_those_of_the_settings():
    own = AlarmSettings(steps=2, truncated_share=0.2)
    assert _sounded(_alone((2, {"truncated_share": 0.2})), own=own) == [("truncated", "A as drafter", 1, 0)]


def test_the_message_says_what_since_when_by_how_much_and_what_to_do():
    alarms = Alarms(OWN, lineup=method_named("grpo").lineup)
    alarm, lost = [alarm for row in _alone((2, {}), (5, CUT)) for alarm in alarms.see(row)]
    assert lost.name == "format-lost", "nor can any of them be read"
    assert str(alarm) == (
        "all-truncated, A as drafter since step 2: draft/truncated_share is 1 (limit 1): every completion is cut at "
        "rollout.max_draft_tokens, so that none can be right: raise it, or take a base that comes to an end"
    )
    assert (alarm.mode, alarm.setting, alarm.threshold) == ("stop", "all_truncated", 1.0)
    assert json.loads(json.dumps(alarm.to_json()))["since"] == 2


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_alarm_can_be_switched_off(rule):
    rows = [
        _row(step, draft={**STUCK, "dead_group_share": 1.0, **(CUT if step % 2 else GARBAGE)}, **{"pair/distance": 0.0})
        for step in range(60)
    ]
    own = AlarmSettings(**{rule.name: "off"})
    assert rule.name.replace("_", "-") not in [found[0] for found in _sounded(rows, own=own)]
    assert {"off", "warn", "stop"} >= {getattr(OWN, rule.name)}
    assert isinstance(getattr(OWN, rule.steps), int)


def test_the_recorded_healthy_run_of_a_language_model_is_silent():
    # Agon on GSM8K with Qwen2.5-Coder-0.5B (docs/log.md): half of the first challenges box nothing, challenges grow from 56 to 210 tokens
    # and their entropy falls from .5 to .12 nats.
    results = Path(__file__).parents[3] / "benchmarks" / "results" / "gsm8k-2026-11-30.json"
    steps = json.loads(results.read_text())["steps"]
    assert len(steps) == 32
    assert _sounded(steps, "agon") == []


def test_every_alarm_and_setting_is_explained():
    text = (Path(__file__).parents[3] / "docs" / "alarms.md").read_text()
    for name in AlarmSettings.model_fields:
        assert f"`{name}`" in text, name
