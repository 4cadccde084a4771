from __future__ import annotations

from agon.prompts.withhold import WITHHELD
from agon.prompts.withhold_code import shows_code, withhold_code

FENCE = "```"
QUESTION = "Write a function.\n\n```python\nassert total([1, 2, 3]) == 6\n```"
PROGRAM = "def total(values):\n    # add them up\n    return sum(value for value in values)\n"
BLOCK = f"{FENCE}python\n{PROGRAM}{FENCE}"


def test_every_block_is_taken_out_and_the_words_stay():
    text = f"Add the values.\n{BLOCK}\nIt prints\n{FENCE}\n6\n{FENCE}\nas wanted."
    assert withhold_code(text, QUESTION) == (
        f"Add the values.\n{WITHHELD}\nIt prints\n{WITHHELD}\nas wanted.",
        2,
        PROGRAM,
    )


def test_unfenced_code_is_taken_out_to_the_end():
    assert withhold_code(f"Add the values.\n{PROGRAM}", QUESTION) == (f"Add the values.\n{WITHHELD}", 1, PROGRAM)


def test_a_line_of_the_program_on_a_line_of_its_own_is_taken_out_too():
    text = f"The heart is\n\n    return  sum(value for value in values)\n\nand no more.\n{BLOCK}"
    kept = withhold_code(text, QUESTION)
    assert kept.text == f"The heart is\n\n{WITHHELD}\n\nand no more.\n{WITHHELD}"
    assert kept.num_spans == 2


def test_a_line_that_the_question_shows_stays():
    text = f"We need\nassert total([1, 2, 3]) == 6\n{FENCE}python\nassert total([1, 2, 3]) == 6\nx = compute(everything)\n{FENCE}"
    assert withhold_code(text, QUESTION).text == f"We need\nassert total([1, 2, 3]) == 6\n{WITHHELD}"


def test_doing_it_twice_changes_nothing_more():
    once = withhold_code(f"Words.\n{BLOCK}\nMore words.", QUESTION).text
    assert withhold_code(once, QUESTION).text == once


def test_a_program_line_inside_a_sentence_is_a_leak():
    assert shows_code("Just `return sum(value for value in values)`, no loop.", PROGRAM, QUESTION)
    assert not shows_code("Sum the values with a generator.", PROGRAM, QUESTION)
    assert not shows_code("def total(values):", PROGRAM, QUESTION)
    assert not shows_code("anything", None, QUESTION)
