from __future__ import annotations

import pytest

from agon.records import Completion
from agon.serve.pieces import PieceMaker


def _completion(text, stop_reason="stop"):
    ids = tuple(map(ord, text)) + ((0,) if stop_reason == "stop" else ())
    return Completion(ids, (-0.5,) * len(ids), text, stop_reason, "A", 3)


def _grow(maker, text, now):
    return maker.grow([ord(character) for character in text], [-0.5] * len(text), now)


def test_the_first_piece_goes_at_once_and_others_after_a_pause(char_reader):
    maker = PieceMaker(char_reader, pause_s=1.0, has_ends=False)
    assert _grow(maker, "a", 10.0).text == "a"
    assert _grow(maker, "b", 10.5) is None
    assert _grow(maker, "c", 10.9) is None
    piece = _grow(maker, "d", 11.0)
    assert (piece.text, piece.token_ids, piece.logprobs) == ("bcd", tuple(map(ord, "bcd")), (-0.5,) * 3)
    assert _grow(maker, "e", 11.5) is None
    # The last goes at once, too.
    last = maker.end([0], [-0.5], _completion("abcde"))
    assert (last.text, last.token_ids, last.token_ends) == ("e", (ord("e"), 0), ())


def test_a_pause_is_as_long_as_the_longer_of_both_least_ones(char_reader):
    maker = PieceMaker(char_reader, pause_s=1.0, has_ends=False)
    for at, least_pause_s, has_piece in ((10.0, 3.0, True), (12.9, 0.0, False), (13.0, 0.5, True), (14.0, 0.5, True)):
        piece = maker.grow([ord("a")], [-0.5], at, least_pause_s=least_pause_s)
        assert (piece is not None) == has_piece


class LateReader:
    """Two tokens make a character; one alone cannot be read."""

    byte_ids = frozenset()

    def kept(self, token_ids):
        return list(token_ids)

    def read(self, token_ids, *, has_stop):
        return "x" * (len(token_ids) // 2) + "\ufffd" * (len(token_ids) % 2)


def test_tokens_without_text_yet_wait_for_it_and_start_no_pause():
    maker = PieceMaker(LateReader(), pause_s=1.0, has_ends=False)
    assert maker.grow([1], [-1.0], 10.0) is None
    piece = maker.grow([2], [-2.0], 10.1)
    assert (piece.text, piece.token_ids, piece.logprobs) == ("x", (1, 2), (-1.0, -2.0))


@pytest.mark.parametrize("has_ends", [False, True])
def test_an_unfinished_character_is_told_at_the_end(has_ends):
    maker = PieceMaker(LateReader(), pause_s=0.0, has_ends=has_ends)
    pieces = [maker.grow([1, 2], [-1.0, -2.0], 10.0), maker.grow([3], [-3.0], 11.0)]
    assert pieces[0].token_ends == ((0, 1) if has_ends else ())
    assert pieces[1] is None
    completion = Completion((1, 2, 3), (-1.0, -2.0, -3.0), "x\ufffd", "length", "A", 3)
    last = maker.end([], [], completion)
    assert (last.text, last.token_ids, last.token_ends) == ("\ufffd", (3,), (2,) if has_ends else ())


def test_ends_say_which_characters_are_finished_with_each_token(char_reader):
    maker = PieceMaker(char_reader, pause_s=1.0, has_ends=True)
    assert _grow(maker, "ab", 10.0).token_ends == (1, 2)
    assert _grow(maker, "c", 10.1) is None
    last = maker.end([ord("d"), 0], [-0.5, -0.5], _completion("abcd"))
    assert (last.text, last.token_ends) == ("cd", (3, 4, 4))


def test_a_completion_of_nothing_but_a_stop_token_ends_at_its_beginning(char_reader):
    maker = PieceMaker(char_reader, pause_s=1.0, has_ends=True)
    last = maker.end([0], [-0.5], _completion(""))
    assert (last.text, last.token_ids, last.token_ends) == ("", (0,), (0,))
