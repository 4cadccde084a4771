from agon.gym_items import level_of


def test_a_difficulty_of_one_number_is_a_level():
    assert level_of({"metadata": {"difficulty": {"length": 10}}}) == 10.0
    assert level_of({"metadata": {"difficulty": {"share": 0.5}}}) == 0.5


def test_ranges_several_numbers_and_none_are_no_level():
    assert level_of({"metadata": {"difficulty": {"length": (2, 10)}}}) is None
    assert level_of({"metadata": {"difficulty": {"rows": 3, "columns": 4}}}) is None
    assert level_of({"metadata": {"difficulty": {"rows": 3, "kind": "easy"}}}) is None
    assert level_of({"metadata": {}}) is None
