from agon.tasks.table import Row, listed, shown, table_of


def test_a_long_value_is_shortened_with_its_length():
    told = shown("x" * 1_000_000)
    assert told.endswith("… (1,000,000 characters)")
    assert len(told) < 120
    assert shown([0] * 1000) == "[" + "0, " * 26 + "0… (3,000 characters)"


def test_a_short_value_is_shown_whole_on_one_line_of_ascii():
    assert shown("a\n\u2028é") == r"'a\n\u2028\xe9'"
    assert shown(None) == "None"


def test_of_many_names_the_first_are_listed():
    assert listed(["a", "b"]) == "a, b"
    assert listed(str(n) for n in range(25)).endswith("18, 19 and 5 more")
    assert len(listed(["x" * 10_000])) < 100


def test_a_table_gives_the_columns_of_all_rows_and_loads_those_asked_for():
    table = table_of("s", [Row(1, {"a": 1, "b": 2}), Row(2, {"c": 3}), Row(3, {}, "bad")])
    assert table.columns == ("a", "b", "c")
    assert list(table.read(["b", "c"])) == [Row(1, {"b": 2}), Row(2, {"c": 3}), Row(3, {}, "bad")]
