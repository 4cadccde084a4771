from __future__ import annotations

import pytest

from agon.errors import ConfigError
from agon.match.lineups import lineup_for
from agon.records import PROTOCOLS


def test_a_cascade_orders_the_adapters_by_direction():
    assert lineup_for("cascade", direction="a-b").drafters == ("A",)
    assert lineup_for("cascade", direction="a-b").challenger == "B"
    assert lineup_for("cascade", direction="b-a").drafters == ("B",)
    assert lineup_for("cascade", direction="b-a").challenger == "A"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_known_protocol_has_a_lineup_for_the_base(protocol):
    lineup = lineup_for(protocol, is_base=True, num_drafts=2 if protocol == "majority" else 1)
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
        ("blind-second", 1, 2),
    ],
)
def test_a_protocol_samples_what_it_says(protocol, drafts, rollouts):
    assert lineup_for(protocol, num_drafts=drafts).num_rollouts == rollouts


@pytest.mark.parametrize(("protocol", "drafts"), [("majority", 1), ("moa", 0), ("single", 2), ("cascade", 3)])
def test_a_number_of_drafts_that_makes_no_sense_is_refused(protocol, drafts):
    with pytest.raises(ConfigError, match=f"--drafts is {drafts}"):
        lineup_for(protocol, num_drafts=drafts)


def test_an_unknown_protocol_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'duel'.*cascade"):
        lineup_for("duel")
