from __future__ import annotations

from agon.cli.verdicts import print_table, shown


def test_what_cannot_be_printed_is_escaped_and_long_texts_are_cut():
    assert shown("a\nb\t\udcff\x1b[31mé") == "a\\nb\\t\\udcff\\x1b[31mé"
    assert shown("x" * 80) == "x" * 70 + "…"
    assert shown("x" * 80, None) == "x" * 80
    assert shown(None) == "(none)"


def test_columns_are_as_wide_as_their_widest_cell(capsys):
    print_table([("name", "n"), ("a", 100), ("longest", 7)])
    assert capsys.readouterr().out == "  name       n\n  a        100\n  longest    7\n"
