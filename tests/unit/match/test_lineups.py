from __future__ import annotations

import math
from pathlib import Path

import pytest

from agon.errors import ConfigError
from agon.match.lineups import lineup_for
from agon.records import PROTOCOLS, Lineup


def test_a_cascade_orders_the_adapters_by_direction():
    assert lineup_for("cascade", direction="a-b").drafters == ("A",)
    assert lineup_for("cascade", direction="a-b").challenger == "B"
    assert lineup_for("cascade", direction="b-a").drafters == ("B",)
    assert lineup_for("cascade", direction="b-a").challenger == "A"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_known_protocol_has_a_lineup_for_the_base(protocol):
    lineup = lineup_for(protocol, is_base=True)
    assert set(lineup.drafters) == {None}
    assert lineup.challenger is None


@pytest.mark.parametrize(
    ("protocol", "drafts", "rollouts"),
    [
        ("single", 1, 1),
        ("cascade", 1, 2),
        ("self-cascade", 1, 2),
        ("moa", 4, 5),
        ("majority", 4, 4),
        ("likeliest", 2, 2),
        ("blind-second", 1, 2),
        ("placebo", 1, 2),
        ("empty-draft", 1, 2),
        ("answer-visible", 1, 2),
        ("selective", 1, 2),
        ("selective", 3, 4),
    ],
)
def test_a_protocol_samples_what_it_says(protocol, drafts, rollouts):
    assert lineup_for(protocol, num_drafts=drafts).num_rollouts == rollouts


def test_layers_are_counted_without_the_challenge():
    # two layers of three drafts and one challenge
    assert lineup_for("moa", num_drafts=3, layers=2).num_rollouts == 7


@pytest.mark.parametrize(
    ("protocol", "reads", "shows_answer", "doubt"),
    [
        ("cascade", "own", False, None),
        ("placebo", "placebo", False, None),
        ("empty-draft", "empty", False, None),
        ("answer-visible", "own", True, None),
        ("selective", "own", False, "likelihood"),
    ],
)
def test_the_variants_of_a_cascade_differ_from_it_in_one_thing(protocol, reads, shows_answer, doubt):
    lineup = lineup_for(protocol, direction="b-a")
    assert (lineup.drafters, lineup.challenger) == (("B",), "A")
    assert (lineup.reads, lineup.shows_answer, lineup.doubt) == (reads, shows_answer, doubt)


@pytest.mark.parametrize("protocol", ["placebo", "empty-draft", "answer-visible", "selective"])
def test_without_a_direction_one_player_plays_both_stages(protocol):
    lineup = lineup_for(protocol, direction=None, adapter="B")
    assert (lineup.drafters, lineup.challenger) == (("B",), "B")


def test_the_likeliest_is_of_one_player_or_of_a_pair():
    assert lineup_for("likeliest", direction=None, adapter="B", num_drafts=3) == Lineup(
        ("B", "B", "B"), stands="likeliest"
    )
    assert lineup_for("likeliest", adapter=None) == Lineup(("A", "B"), stands="likeliest")
    assert lineup_for("likeliest", adapter=None, is_base=True, num_drafts=4) == Lineup((None,) * 4, stands="likeliest")
    with pytest.raises(
        ConfigError,
        match=r"the number of drafts is 3, .* one draft of each adapter: leave it out, or choose one adapter",
    ):
        lineup_for("likeliest", adapter=None, num_drafts=3)


def test_a_selective_cascade_challenges_everything_unless_told_otherwise():
    assert lineup_for("selective").threshold == math.inf
    assert lineup_for("selective", doubt="agreement", threshold=0.75).threshold == 0.75
    assert lineup_for("selective", doubt="agreement").drafters == ("A", "A")


@pytest.mark.parametrize(
    ("protocol", "drafts"),
    [("majority", 1), ("likeliest", 1), ("moa", 0), ("single", 2), ("single", 0), ("cascade", 3), ("placebo", 2)],
)
def test_a_number_of_drafts_that_makes_no_sense_is_refused(protocol, drafts):
    with pytest.raises(ConfigError, match=f"the number of drafts is {drafts}, but "):
        lineup_for(protocol, num_drafts=drafts)


@pytest.mark.parametrize(
    ("protocol", "options", "message"),
    [
        ("selective", {"doubt": "agreement", "num_drafts": 1}, "selective by agreement needs 2"),
        ("moa", {"layers": 0}, "the number of layers is 0"),
        ("moa", {"layers": 10**20}, f"the number of layers is {10**20}, but a match has at most 1024"),
        ("majority", {"num_drafts": 10**20}, f"the number of drafts is {10**20}, but a match has at most 1024"),
        ("likeliest", {"num_drafts": 1025}, "the number of drafts is 1025, but a match has at most 1024"),
        ("cascade", {"layers": 2}, "the number of layers is 2, but cascade"),
        ("cascade", {"doubt": "likelihood"}, "a doubt by likelihood .* cascade has none: only selective"),
        ("moa", {"threshold": -1.0}, "--threshold -1 .* only selective"),
        ("selective", {"threshold": math.nan}, "--threshold is nan"),
    ],
)
def test_an_option_that_a_protocol_does_not_have_is_refused(protocol, options, message):
    with pytest.raises(ConfigError, match=message):
        lineup_for(protocol, **options)


def test_every_protocol_has_a_row_in_the_docs():
    lines = (Path(__file__).parents[3] / "docs" / "protocols.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("`")[1].split()[0] for line in lines if line.startswith("| `")}
    assert rows == set(PROTOCOLS)


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'duel'.*cascade"):
        lineup_for("duel")
