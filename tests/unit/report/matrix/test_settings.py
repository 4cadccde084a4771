from agon.report.matrix.settings import MAX_VALUES, by_value


def test_settings_are_shared_or_counted_by_value():
    table = by_value(
        [{"seed": "0", "base": "q"}, {"seed": "1", "base": "q"}, {"seed": "1", "base": "q", "new": "x"}], "–"
    )
    assert table.shared == [("base", "q")]
    assert table.differing == [("seed", ["0 (1)", "1 (2)"]), ("new", ["– (2)", "x (1)"])]


def test_of_many_values_the_first_are_written_out():
    ((_, values),) = by_value([{"begun": str(at)} for at in range(MAX_VALUES + 3)], "–").differing
    assert len(values) == MAX_VALUES + 1
    assert values[-1] == "3 more values"
