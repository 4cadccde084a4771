from agon.verifiers.whole_sets import whole_set


def test_all_numbers_and_nothing_have_one_sign_each():
    for text in ("all real numbers", "All reals", r"(-\infty, \infty)", r"x \in \mathbb{R}"):
        assert whole_set(text) == r"\mathbb{R}"
    for text in ("empty set", "No solutions", "there is no real solution", r"\varnothing", r"\{\}"):
        assert whole_set(text) == r"\emptyset"


def test_what_says_more_is_no_whole_set():
    for text in ("all real numbers except 0", "no solution or 5", "R", "0", ""):
        assert whole_set(text) is None
