import pytest

from agon.verifiers.shape import are_joined_otherwise, equation_sides, read_shape, stated_value, without_remarks


def outline(shape):
    """A shape as nested tuples: kind, name and what is inside."""
    inside = tuple(outline(part) for part in shape.parts) if shape.parts else shape.text
    return (shape.kind, shape.name, inside) if shape.name else (shape.kind, inside)


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("5", ("value", "5")),
        ("5, 11", ("list", (("value", "5"), ("value", "11")))),
        (r"5 \text{ and } 11", ("list", (("value", "5"), ("value", "11")))),
        (r"\{5, 11\}", ("list", (("value", "5"), ("value", "11")))),
        ("{5, 11}", ("list", (("value", "5"), ("value", "11")))),
        ("(5, 11)", ("tuple", (("value", "5"), ("value", "11")))),
        ("[5, 11)", ("interval", (("value", "5"), ("value", "11")))),
        ("[5, 11, 2]", ("list", (("value", "5"), ("value", "11"), ("value", "2")))),
        ("[5]", ("value", "5")),
        ("(x+1)", ("value", "(x+1)")),
        ("(x+1)(x+2)", ("value", "(x+1)(x+2)")),
        (r"\frac{1,2}{3}", ("value", r"\frac{1,2}{3}")),
        ("(1,2", ("value", "(1,2")),
        ("(0,1) \\cup (2,3)", ("value", "(0,1) \\cup (2,3)")),
        ("x = 5", ("value", "x", "5")),
        ("5 = x", ("value", "x", "5")),
        ("f(x) = x+1", ("value", "f(x)", "x+1")),
        ("Maximum: 5", ("value", "Maximum", "5")),
        ("x = y = 5", ("value", "x", "5")),
        ("2x = 4", ("value", "2x = 4")),
        ("3:2", ("value", "3:2")),
        (r"x \in [1,2]", ("interval", (("value", "1"), ("value", "2")))),
        ("x=1, y=2", ("list", (("value", "x", "1"), ("value", "y", "2")))),
        ("(1,2);(3,4)", ("list", (("tuple", (("value", "1"), ("value", "2"))), ("tuple", (("value", "3"), ("value", "4")))))),
        ("p=5,q=2;7", ("list", (("tuple", (("value", "p", "5"), ("value", "q", "2"))), ("value", "7")))),
        (
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
            ("matrix", (("tuple", (("value", "1"), ("value", "2"))), ("tuple", (("value", "3"), ("value", "4"))))),
        ),
    ],
)  # fmt: skip
def test_the_outer_shape_is_told_by_brackets_and_separators(latex, expected):
    assert outline(read_shape(latex)) == expected


def test_interval_keeps_its_brackets_and_a_list_what_joins_it():
    assert read_shape("(1,2]").edges == "(]"
    assert read_shape("x<1 or x>3").glue == "or"
    assert read_shape("x>1 and x<3").glue == "and"


def test_depth_and_number_of_parts_are_limited():
    assert read_shape("(1," * 50 + "2" + ")" * 50).kind == "tuple"
    assert read_shape(",".join("1" * 100)).kind == "value"


@pytest.mark.parametrize(
    ("latex", "kept"),
    [
        (r"f(x)=1 \text{ for all } x > 0", "f(x)=1"),
        (r"2n, \text{where } n \in \mathbb{Z}", "2n"),
        (r"a \text{ for all } x, b \text{ for all } x", "a, b"),
        ("before", "before"),
        ("for all x", "for all x"),
    ],
)
def test_closing_remarks_are_dropped(latex, kept):
    assert without_remarks(latex) == kept


@pytest.mark.parametrize(
    ("equation", "value"),
    [
        ("12+25 = 37", "37"),
        ("AB = 5", "5"),
        ("a+b = 256+37 = 293", "293"),
        ("|AB| = 1", "1"),
        ("2x = 4", None),
        ("-x = 4", None),
        ("x^2 = 4", None),
        (r"\sqrt{x} = 4", None),
        (r"\ln x = 4", None),
        (r"2\theta = 4", None),
        (r"\cos A = 4", "4"),
        (r"\sqrt{4} = 2", "2"),
        ("ax + b = 0", None),
        ("x < 4", None),
        ("5", None),
    ],
)
def test_an_equation_states_a_value_or_is_a_condition(equation, value):
    assert stated_value(equation) == value


def test_sides_stand_around_the_equals_signs_outside_brackets():
    assert equation_sides("a = b = c") == ["a", "b", "c"]
    assert equation_sides("(a = b)") is None
    assert equation_sides("a <= b") is None
    assert equation_sides("a != b") is None


@pytest.mark.parametrize(
    ("wanted", "found", "differ"),
    [
        ("x>1 and x<3", "x>1 or x<3", True),
        ("x>0, y>0", "x>0 or y>0", True),
        ("x=2 or y=3", "x=2, y=3", True),
        ("x=2 or x=3", "x=2, x=3", False),
        ("x>0, y>0", "x>0 and y>0", False),
        ("2 or 3", "2 and 3", False),
    ],
)
def test_relations_joined_by_and_are_not_those_joined_by_or(wanted, found, differ):
    assert are_joined_otherwise(read_shape(wanted), read_shape(found)) is differ
