from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import ConfigError
from agon.serve.records import Piece
from agon.serve.stops import StopStrings


def _pass(stops, pieces):
    """What each piece let through, and what the end did."""
    strings = StopStrings(stops)
    return [strings.add(piece) for piece in pieces] + [strings.finish()], strings


def _texts(stops, texts):
    passed, strings = _pass(stops, [Piece(text) for text in texts])
    return [piece.text for piece in passed], strings.has_stopped


@pytest.mark.parametrize(
    ("stops", "texts", "passed", "has_stopped"),
    [
        (["END"], ["abENDc"], ["ab", ""], True),
        (["END"], ["abE", "N", "D", "c"], ["ab", "", "", "", ""], True),
        (["END"], ["abE", "Nx"], ["ab", "ENx", ""], False),
        (["END"], ["abEN"], ["ab", "EN"], False),
        (["END"], ["ENEND"], ["EN", ""], True),
        (["ENEND"], ["EN", "EN", "END"], ["", "", "EN", ""], True),
        (["\n\n"], ["a\n", "b\n", "\n"], ["a", "\nb", "", ""], True),
        # Of two in the text the one that begins first counts, also where the other is complete before it.
        (["cd", "abcdef"], ["xabcd", "efg"], ["x", "", ""], True),
        (["cd", "abcdef"], ["xabcd", "eg"], ["x", "ab", ""], True),
        (["cd", "abcdef"], ["xabcd"], ["x", "ab"], True),
        (["aab"], ["aaa", "aab"], ["a", "aa", ""], True),
        (["😀😀"], ["a😀", "😀"], ["a", "", ""], True),
        (["END"], ["END"], ["", ""], True),
    ],
)
def test_what_may_begin_a_stop_string_is_held_back_until_it_is_not(stops, texts, passed, has_stopped):
    assert _texts(stops, texts) == (passed, has_stopped)


_LETTERS = st.text(alphabet="ab", max_size=12)


@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(_LETTERS, max_size=8),
)
def test_the_text_ends_before_the_first_stop_string_however_it_is_cut_into_pieces(stops, texts):
    whole = "".join(texts)
    found = [whole.find(stop) for stop in stops if stop in whole]
    passed, has_stopped = _texts(stops, texts)
    assert "".join(passed) == whole[: min(found, default=None)]
    assert has_stopped == bool(found)
    # Nothing is held that could not begin a stop string.
    for number in range(1, len(texts) + 1):
        so_far, given = "".join(texts[:number]), "".join(passed[:number])
        held = so_far[len(given) :]
        assert has_stopped or any(stop.startswith(held) for stop in stops)


@given(
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(0, 3), max_size=12),
    st.data(),
)
def test_a_token_goes_with_the_text_if_one_of_its_characters_does(stops, lengths, data):
    """Tokens of 0 to 3 characters; those of 0 are special tokens, or the first bytes of a character."""
    whole = data.draw(st.text(alphabet="ab", min_size=sum(lengths), max_size=sum(lengths)))
    ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
    pieces, first = [], 0
    while first < len(lengths):
        last = data.draw(st.integers(first + 1, len(lengths)))
        text = whole[ends[first] - lengths[first] : ends[last - 1]]
        logprobs = tuple(-float(number) for number in range(first, last))
        pieces.append(Piece(text, tuple(range(first, last)), logprobs, token_ends=tuple(ends[first:last])))
        first = last
    passed, strings = _pass(stops, pieces)
    left = "".join(piece.text for piece in passed)
    ids = [token for piece in passed for token in piece.token_ids]
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    expected = [number for number, start in enumerate(starts) if start < len(left) or not strings.has_stopped]
    assert ids == expected
    assert [logprob for piece in passed for logprob in piece.logprobs] == [-float(number) for number in expected]


def test_without_ends_a_piece_keeps_its_tokens_together():
    passed, _ = _pass(["cd"], [Piece("abc", (1, 2), (-1.0, -2.0)), Piece("d", (3,), (-3.0,))])
    assert [piece.token_ids for piece in passed] == [(1, 2), (), ()]
    assert [piece.text for piece in passed] == ["ab", "", ""]


def test_the_tokens_of_a_text_that_is_held_back_are_held_back():
    pieces = [Piece("a", (1,), (-1.0,), token_ends=(1,)), Piece("c", (2,), (-2.0,), token_ends=(2,))]
    passed, _ = _pass(["cd"], pieces)
    assert [piece.token_ids for piece in passed] == [(1,), (), (2,)]


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ConfigError, match="empty"):
        StopStrings(["a", ""])


def test_a_long_stop_string_costs_little_on_a_text_like_it():
    stop = "a" * 2_000 + "b"
    strings = StopStrings([stop])
    passed = "".join(strings.add(Piece("a")).text for _ in range(20_000))
    assert passed == "a" * 18_000
    assert strings.add(Piece("b")).text == ""
    assert strings.has_stopped
