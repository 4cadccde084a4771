import pytest

from agon.verifiers.exact import check_exact
from agon.verifiers.numeric import check_numeric


@pytest.mark.parametrize(
    ("gold", "answer", "outcome"),
    [
        ("1234", "1,234", "correct"),
        ("1,234", "1234", "correct"),
        ("1234", r"1{,}234", "correct"),
        ("18", "$18", "correct"),
        ("18", "18 dollars", "correct"),
        ("18", "18.00", "correct"),
        ("25", "25%", "correct"),
        ("0.5", "1/2", "correct"),
        ("0.5", r"\frac{1}{2}", "correct"),
        ("-3", "\u22123", "correct"),
        ("62", "12+25+25 = 62", "correct"),
        ("82", "082", "correct"),
        ("1,000 dollars", "1000", "correct"),
        ("7", "17", "wrong"),
        ("256", "256+37 = 293", "wrong"),
        ("1", "0.9999", "wrong"),
        ("31133", "3,11,33", "unparsed"),
        ("7", "maybe 3, 5, 7 or 9", "unparsed"),
        ("4", r"4\sqrt(3)", "unparsed"),
        ("7", "seven", "unparsed"),
        ("7", "7x", "unparsed"),
        ("lots", "7", "error"),
    ],
)
def test_numbers_are_compared_exactly(gold, answer, outcome):
    verdict = check_numeric(gold, answer)
    assert verdict.outcome == outcome
    assert verdict.score == float(outcome == "correct")
    assert (verdict.answer, verdict.gold) == (answer, gold)
    assert verdict.reason


@pytest.mark.parametrize(
    ("gold", "answer", "outcome"),
    [
        ("Paris", " paris. ", "correct"),
        ("New York", "new   york", "correct"),
        ("\ufb01ne", "fine", "correct"),
        ("B", '"B"', "correct"),
        ("Paris", "Paris, France", "wrong"),
        ("7", "17", "wrong"),
    ],
)
def test_texts_are_compared_without_case_and_spacing(gold, answer, outcome):
    assert check_exact(gold, answer).outcome == outcome
