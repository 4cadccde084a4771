from agon.verifiers.brackets import usual_brackets, usual_rows


def test_a_square_bracket_that_is_turned_away_is_a_round_one():
    assert usual_brackets(r"]5,\infty[") == r"(5,\infty)"
    assert usual_brackets("[1,2[") == "[1,2)"
    assert usual_brackets("]-1,1[ \\cup ]3,4]") == "(-1,1) \\cup (3,4]"
    assert usual_brackets("[1,2]") == "[1,2]"


def test_rows_end_with_two_backslashes_alone():
    assert usual_rows(r"1\\[4pt]2\cr 3") == r"1\\2\\ 3"
    assert usual_rows(r"\\[1,2]") == r"\\[1,2]"
