import pytest

from agon.verifiers.units import are_other_units, split_unit


@pytest.mark.parametrize(
    ("text", "formula", "unit"),
    [
        (r"5\text{ cm}", "5", "cm"),
        (r"3\sqrt{13} \mathrm{m}^2", r"3\sqrt{13}", "m2"),
        ("72 degrees", "72", "degrees"),
        (r"12\text{ cm}^{2}", "12", "cm2"),
        (r"2 \text{ or } 5", r"2 \text{ or } 5", ""),
        ("x + 5", "x + 5", ""),
        ("5cm", "5", "cm"),
        ("12x", "12x", ""),
        ("12 x", "12 x", ""),
        ("12 apples", "12", "apples"),
        ("12 or more", "12 or more", ""),
    ],
)
def test_units_are_split_off(text, formula, unit):
    assert split_unit(text) == (formula, unit)


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("cm", "m", True),
        ("cm", "centimeters", False),
        ("cm", "cm2", True),
        ("square cm", "cm2", False),
        ("mph", "miles per hour", False),
        ("apples", "pears", False),
        ("", "cm", False),
    ],
)
def test_only_known_units_can_differ(first, second, differ):
    assert are_other_units(first, second) is differ
