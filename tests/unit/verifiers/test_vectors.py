from agon.verifiers.shape import read_shape
from agon.verifiers.vectors import in_unit_vectors, is_bare, rows, with_unit_vectors


def test_unit_vectors_are_plain_letters_of_a_sum():
    assert in_unit_vectors(r"\mathbf{i}+2\hat{j}-3\vec k") == "i+2j-3k"
    assert in_unit_vectors(r"\hat{\imath}-\hat{\jmath}") == "i-j"
    for text in ("1+2i", "ij", "x+j", "5", "j+j"):
        assert in_unit_vectors(text) == ""


def test_entries_are_multiples_of_the_unit_vectors():
    assert with_unit_vectors(read_shape("(1,-2,3)").parts) == "(1) i+(-2) j+(3) k"
    assert with_unit_vectors(read_shape("(1,2,3,4)").parts) == ""


def test_a_list_of_lists_has_rows_and_a_list_of_tuples_none():
    assert [len(row.parts) for row in rows(read_shape("[[1,2],[3,4]]"))] == [2, 2]
    assert rows(read_shape("[(1,2),(3,4)]")) == ()


def test_a_set_in_its_brackets_is_not_bare():
    assert not is_bare(read_shape(r"\{1,2\}"), read_shape("(1,2)"))
    assert is_bare(read_shape("1,2"), read_shape("(1,2)"))
