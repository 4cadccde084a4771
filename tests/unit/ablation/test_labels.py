from __future__ import annotations

import pytest

from agon.ablation.labels import blamed_on, wish_named
from agon.errors import ConfigError, DataError
from agon.records import PROTOCOLS


@pytest.mark.parametrize(
    ("label", "protocol", "direction", "adapter", "drafts"),
    [
        ("single-a", "single", "dev", "a", None),
        ("cascade-a-b", "cascade", "a-b", None, None),
        # not "self" and a cascade: the whole label is read
        ("self-cascade-b", "self-cascade", "dev", "b", None),
        ("cascade-b-a", "cascade", "b-a", None, None),
        ("majority-a-k4", "majority", "dev", "a", 4),
        ("moa-k2", "moa", "dev", None, 2),
        ("blind-second-a-b", "blind-second", "a-b", None, None),
        ("answer-visible", "answer-visible", "dev", None, None),
    ],
)
def test_a_label_says_protocol_players_and_drafts(label, protocol, direction, adapter, drafts):
    wish = wish_named(label)
    assert (wish.protocol, wish.direction, wish.adapter, wish.num_drafts) == (protocol, direction, adapter, drafts)
    assert wish.label == label
    assert not wish.has_doubled_cap


def test_a_label_says_layers_doubt_and_a_doubled_cap():
    assert wish_named("moa-a-k2-l3").layers == 3
    assert wish_named("selective-a-b-k2-agreement").doubt == "agreement"
    doubled = wish_named("single-a-doubled-cap")
    assert doubled.has_doubled_cap
    assert doubled.adapter == "a"
    assert doubled.split == "test"


def test_a_label_says_that_the_development_problems_are_meant():
    wish = wish_named("cascade-a-b-dev")
    assert (wish.split, wish.direction, wish.label) == ("dev", "a-b", "cascade-a-b-dev")
    assert wish_named("single-a-doubled-cap-dev").split == "dev"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_is_a_label(protocol):
    assert wish_named(protocol).protocol == protocol


# The last two are numbers for Python: in digits that no file name takes, and in more of them than it reads.
@pytest.mark.parametrize(
    "label",
    [
        "sngle-a",
        "single-c",
        "cascade-a-b-a",
        "",
        "single-a-k",
        "../single-a",
        "majority-a-k\u0663",
        f"moa-k{'9' * 5000}",
    ],
)
def test_another_label_is_refused_with_an_example(label):
    with pytest.raises(ConfigError, match=r"is not known: write PROTOCOL.*cascade-a-b"):
        wish_named(label)


def test_what_a_label_cannot_have_is_blamed_on_it_and_nothing_else_is():
    with pytest.raises(ConfigError, match=r"^evaluation 'moa-a-l0': --layers is 0"), blamed_on("moa-a-l0"):
        raise ConfigError("--layers is 0")
    with pytest.raises(DataError, match=r"^no problems"), blamed_on("single-a"):
        raise DataError("no problems")
