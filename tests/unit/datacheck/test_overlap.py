from agon.datacheck.overlap import RUN_WORDS, RunIndex, runs_of, words_of

LONG = (
    "Weng earns $12 an hour for babysitting. Yesterday she just did 50 minutes of babysitting. How much did she earn?"
)


def test_words_are_the_same_in_any_latex_style():
    assert words_of(r"Find $\dfrac{1}{2}$ of \(x\).") == ["find", "1", "2", "of", "x"]
    assert words_of(r"find \left\frac12\right\, of \text{X}")[-2:] == ["of", "x"]
    assert words_of("½ ＡＢ") == ["1", "2", "ab"]
    assert words_of("a [asy]draw((0,0)--(1,1));[/asy] b") == ["a", "b"]


def test_a_question_has_one_run_for_each_place_where_thirteen_words_fit():
    assert len(runs_of(" ".join(str(n) for n in range(RUN_WORDS + 4)))) == 5
    assert runs_of("Find the value of x") == set()


def copies(first, second):
    """Shares of the near copies of one list of questions in another, by the pair of positions."""
    return {(copy.first, copy.second): copy.share for copy in RunIndex(second).near_copies(first)}


def test_a_copy_in_another_style_has_everything_in_common():
    styled = LONG.replace("$12", r"\$ 12").replace("50", "$50$").upper()
    assert copies([LONG], [styled]) == {(0, 0): 1.0}


def test_a_renamed_person_or_another_number_leaves_the_runs_without_it():
    # 20 words make 8 runs; the first word stands in one of them, the eleventh ("50") in all but none of the 8
    assert len(words_of(LONG)) == 20
    assert copies([LONG.replace("Weng", "Ada")], [LONG]) == {(0, 0): 7 / 8}
    assert words_of(LONG).index("50") == 11
    assert copies([LONG.replace("50", "40")], [LONG]) == {}


def test_a_short_common_sentence_is_no_copy():
    assert copies(["Find the value of x."], ["Find the value of x."]) == {}


def test_a_phrase_of_many_problems_is_no_copy_unless_it_is_most_of_the_question():
    phrase = "Express your answer as a common fraction in lowest terms with no spaces between any of the signs please"
    names = ["alpha beta gamma", "one two three", "red green blue", "cat dog cow"]
    texts = [f"{' '.join([name] * 9)} {phrase}" for name in names]
    assert copies(texts, ["completely other words before it " * 4 + phrase]) == {}
    assert copies([*texts, phrase], [phrase])[4, 0] == 1.0


def test_each_question_is_told_with_the_one_it_has_most_in_common_with():
    assert copies([LONG], [LONG.replace("Weng", "Ada"), LONG]) == {(0, 1): 1.0}
