from __future__ import annotations

import pytest

from agon.config import TaskSettings
from agon.errors import DataError
from agon.tasks.typed import typed_problem


def test_a_number_with_thousands_of_digits_is_no_countdown_problem():
    with pytest.raises(DataError, match="is no countdown problem"):
        typed_problem(TaskSettings(), "9" * 5000 + " 7 5 = 24", None)


def test_an_error_repeats_the_beginning_of_a_long_text():
    with pytest.raises(DataError) as error:
        typed_problem(TaskSettings(), "a" * 10**6, None)
    assert str(error.value).startswith(f"'{'a' * 80}…' is no countdown problem")


@pytest.mark.parametrize(
    ("settings", "text", "gold", "reason"),
    [
        (TaskSettings(), "12 7 5 = 24", "24", "a program alone checks"),
        (TaskSettings(), "12 7 5 = 24", "", "a program alone checks"),
        (TaskSettings(name="gsm8k"), "What is 1+1?", " ", "the right answer is empty"),
    ],
)
def test_a_right_answer_that_cannot_be_used_is_not_ignored(settings, text, gold, reason):
    with pytest.raises(DataError, match=reason):
        typed_problem(settings, text, gold)


@pytest.mark.parametrize(("text", "gold", "name"), [("a \udcff", None, "problem"), ("a", "b \ud800", "right answer")])
def test_bytes_that_are_no_text_are_told(text, gold, name):
    for settings in (TaskSettings(), TaskSettings(name="gsm8k")):
        with pytest.raises(DataError, match=f"character 2 of the {name} is none that UTF-8 has"):
            typed_problem(settings, text, gold)


def test_a_typed_code_problem_cannot_be_checked():
    settings = TaskSettings(name="mbpp", answer_style="code")
    assert not typed_problem(settings, "Double a number.", None).can_check
    with pytest.raises(DataError, match="no tests for its program"):
        typed_problem(settings, "Double a number.", "def double(x): return 2 * x")


def test_a_typed_puzzle_of_reasoning_gym_cannot_be_checked():
    settings = TaskSettings(name="reasoning-gym/gcd")
    assert not typed_problem(settings, "Find the GCD of 4 and 6.", None).can_check
    with pytest.raises(DataError, match="no item that its scorer knows"):
        typed_problem(settings, "Find the GCD of 4 and 6.", "2")
