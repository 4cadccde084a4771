import pytest

from agon.verifiers.units import are_other_units, have_other_units, split_unit, stated_unit


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
        ("12m", "12m", ""),
        (r"2\text{ m}", "2", "m"),
        (r"\sqrt{3} inches", r"\sqrt{3}", "inches"),
        (r"5\text{ squared}", r"5\text{ squared}", ""),
        ("5 halves", "5 halves", ""),
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
        ("apples", "pears", True),
        ("apples", "red apples", False),
        ("units", "cm", False),
        ("mW", "MW", True),
        ("m/s2", "meters per second squared", False),
        ("dollars", "dollars per hour", True),
        ("", "cm", False),
    ],
)
def test_units_differ_unless_they_are_known_to_be_the_same_or_one_has_more_words(first, second, differ):
    assert are_other_units(first, second) is differ


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("$5", "dollar"),
        (r"\$5", "dollar"),
        ("$5$", ""),
        ("$5$ cents", "cent"),
        ("5€", "euro"),
        ("60°", "degree"),
        ("60°C", "celsius"),
        (r"5\%", "percent"),
        ("5 lbs", "lb"),
        ("x^2", ""),
        ("5", ""),
    ],
)
def test_an_answer_as_written_states_its_unit(text, unit):
    assert stated_unit(text) == unit


def test_an_angle_may_be_in_radians_or_degrees_but_a_plain_number_of_radians_is_none_of_degrees():
    assert not have_other_units(r"\frac{\pi}{2} \text{ radians}", "90 degrees")
    assert have_other_units("90 degrees", "90 radians")
