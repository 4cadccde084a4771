"""Hostile texts are read in time that grows with their length and no faster."""

import time

import pytest

from agon.answers import extract_answer
from agon.numerals import only_number, read_number
from agon.verifiers.foreign import stated_answer
from agon.verifiers.golds import _reason
from agon.verifiers.math import check_plainly
from agon.verifiers.shape import read_shape, without_remarks
from agon.verifiers.spelling import is_same_text, latex_spelling, same_signs
from agon.verifiers.units import split_unit

PIECES = [
    "(", ")", r"\(", r"\left(", r"\{", "{", "}", "[", "$", "$$", "sqrt(", "√(", "^(", r"\sqrt{", r"\text{", r"\text{a and ", r"\mathrm{e}",
    r"\frac{", r"\frac{1}", "1,", "1,000", ",000", r"1\,", "1.", "1e", "12", "-", "=", "<", " ", "\n", "~", r"\ ", "\\", "\\\\", r"\pm ", "a", "a ",
    "is ", "is the answer ", "answer is ", "so ", "Therefore ", "and ", "for all ", "where ", "x=1;", "x=", "x:", "aa: ", "_", "_{", "x_1", "**", "2**",
    r"\%", " percent", "²", "①", "<sup>", "<sup>2</sup>", "°", r"^\circ", "st", "1st", r"\begin{pmatrix}", r"\end{pmatrix}", "&", r"\in ", "####", "\\!",
]  # fmt: skip


def seconds(read, text):
    start = time.process_time()
    read(text)
    return time.process_time() - start


def assert_is_linear(read, piece, *, num_chars, limit_s):
    """Twice the text takes about twice the time (a square would be four times), in the best of three: the machine is shared."""
    half, whole = (piece * num_chars)[: num_chars // 2], (piece * num_chars)[:num_chars]
    found = []
    for _ in range(3):
        found.append((seconds(read, half), seconds(read, whole)))
        one, two = found[-1]
        if two < limit_s and two < 3.5 * one + 0.05:
            return
    raise AssertionError(f"seconds for half and whole: {found}")


def read_pair(text):
    latex = latex_spelling(text)
    read_shape(latex)
    without_remarks(latex)
    split_unit(latex)
    same_signs(text)
    is_same_text(text, text + "1")
    read_number(text)
    only_number(text)
    _reason(text)


@pytest.mark.parametrize("piece", PIECES)
def test_an_answer_of_the_longest_length_is_read_at_once_and_in_linear_time(piece):
    assert_is_linear(read_pair, piece, num_chars=2_000, limit_s=0.25)


@pytest.mark.parametrize("piece", PIECES)
def test_what_is_too_long_is_refused_before_it_is_read(piece):
    text = (piece * 200_000)[:200_000]
    assert seconds(lambda whole: check_plainly("12", whole), text) < 0.05
    verdict = check_plainly("12", text)
    assert verdict is not None
    assert verdict.outcome == "unparsed"
    refused = check_plainly(text, "12")
    assert refused is not None
    assert refused.outcome == "error"


@pytest.mark.parametrize("style", ["boxed", "tags"])
@pytest.mark.parametrize(
    "piece",
    [*PIECES, r"\boxed{", r"\boxed{1}", r"\boxed{1}, ", "<answer>", "</answer>", "<think>", "</think>", r"\boxed"],
)
def test_a_completion_of_any_length_is_read_in_linear_time(piece, style):
    def read(text):
        extract_answer(text, style)
        stated_answer(text)

    assert_is_linear(read, piece, num_chars=200_000, limit_s=3.0)
