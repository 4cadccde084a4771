from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import DataError
from agon.match.reading import placebo_partners, take_seats
from agon.records import Problem


def _problem(name):
    return Problem(id=name, question=f"q{name}", gold="1", task="t", verifier="exact")


D, A, C = (_problem(name) for name in "dac")


def _names(places):
    return [(problem.id, sample) for problem, sample in places]


@pytest.mark.parametrize(
    ("reads", "places"),
    [
        ("own", [0, 1, 2, 3]),
        # matches 0 and 1 are of one problem, 2 and 3 of the other: the first match of each
        ("shared", [0, 0, 2, 2]),
        ("empty", [None] * 4),
        ("hidden", [None] * 4),
        # d and a are each other's neighbour; the same sample number
        ("placebo", [2, 3, 0, 1]),
    ],
)
def test_who_reads_whom(reads, places):
    seats = take_seats([D, A], 2, reads, among=[D, A])
    assert _names(seats.matches) == [("d", 0), ("d", 1), ("a", 0), ("a", 1)]
    assert seats.drafting == seats.matches
    assert seats.reads == places


def test_a_placebo_is_the_next_problem_by_id_and_after_the_last_the_first():
    partners = placebo_partners([D, A, C])
    assert {name: partner.id for name, partner in partners.items()} == {"a": "c", "c": "d", "d": "a"}


def test_a_partner_that_is_not_played_drafts_without_a_match_of_its_own():
    seats = take_seats([A], 2, "placebo", among=[D, A, C])
    assert _names(seats.matches) == [("a", 0), ("a", 1)]
    assert _names(seats.drafting) == [("a", 0), ("a", 1), ("c", 0), ("c", 1)]
    assert seats.reads == [2, 3]


def test_a_single_problem_has_no_placebo():
    with pytest.raises(DataError, match="another problem"):
        take_seats([A], 4, "placebo", among=[A, A])


@given(st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=2, max_size=9), st.randoms())
def test_placebos_pair_everyone_with_another_whatever_the_order(names, shuffle: random.Random):
    problems = [_problem(name) for name in sorted(names)]
    partners = placebo_partners(problems)
    assert {partner.id for partner in partners.values()} == names  # a permutation
    assert all(partner.id != name for name, partner in partners.items())
    shuffle.shuffle(problems)
    assert placebo_partners(problems) == partners
