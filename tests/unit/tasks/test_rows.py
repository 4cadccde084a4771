import pytest

from agon.tasks.rows import Columns, UnusableRow, content_id, is_guessable, problem_of

COLUMNS = Columns("question", "answer", "level")


def made(answer, *, question="What?", verifier="math", level=None, columns=COLUMNS, **more):
    row = {columns.question: question, columns.answer: answer, "level": level, **more}
    return problem_of(row, columns, task="t", verifier=verifier)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [(7, "7"), ("7", "7"), (7.0, "7"), (0.5, "0.5"), (" x+1 ", "x+1"), (-3, "-3"), (10**30, str(10**30))],
)
def test_text_and_numbers_are_answers(answer, gold):
    assert made(answer).gold == gold


@pytest.mark.parametrize("answer", [[7], None, True, {"a": 1}, float("nan"), float("inf"), "", "  ", "$$", "."])
def test_what_is_no_answer_is_refused_with_its_value(answer):
    with pytest.raises(UnusableRow, match="'answer'"):
        made(answer)


@pytest.mark.parametrize(
    ("answer", "verifier", "gold"),
    [
        ("9 * 2 = <<9*2=18>>18\n#### 18", "numeric", "18"),
        ("#### 1,234", "numeric", "1,234"),
        (r"So $x = \boxed{\frac{1}{2}}$.", "math", r"\frac{1}{2}"),
        (r"\boxed{3} then \boxed{4}", "math", "4"),
        (r"the text \boxed{3}", "exact", r"the text \boxed{3}"),
    ],
)
def test_the_gold_is_taken_out_of_a_whole_solution(answer, verifier, gold):
    assert made(answer, verifier=verifier).gold == gold


def test_a_solution_without_a_box_is_refused():
    columns = Columns("question", "solution", None)
    with pytest.raises(UnusableRow, match="no boxed answer"):
        made("We see that it is 5.", columns=columns)
    assert made(r"We see \boxed{5}.", columns=columns).gold == "5"


@pytest.mark.parametrize(
    ("answer", "verifier"), [("five", "numeric"), ("3 or 4", "numeric"), (r"\frac{1}{", "math"), ("1}", "math")]
)
def test_a_gold_that_its_verifier_could_not_read_is_refused(answer, verifier):
    with pytest.raises(UnusableRow):
        made(answer, verifier=verifier)


@pytest.mark.parametrize("question", [None, 3, "", "  \n", [], [{"role": "assistant", "content": "x"}]])
def test_a_question_must_be_text(question):
    with pytest.raises(UnusableRow, match="'question'"):
        made("7", question=question)


def test_a_chat_with_one_user_turn_is_its_text():
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}]
    assert made("7", question=chat).question == "How many?"


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(UnusableRow, match=r"half a surrogate pair \(U\+D800\)"):
        made("7", question="x \ud800")
    assert made("7", question="x \U0001f600").question == "x \U0001f600"


@pytest.mark.parametrize(
    ("value", "level"), [(5, 5.0), (6.5, 6.5), ("Level 5", 5.0), ("3", 3.0), ("Common-Division", None), (None, None)]
)
def test_levels_are_numbers_however_they_are_written(value, level):
    assert made("7", level=value).level == level


def test_what_the_verifier_needs_travels_with_the_row():
    problem = made("(a-b)*c", verifier="expression", numbers=[12, 7, 5], target=25, note="not needed")
    assert problem.details == {"numbers": [12, 7, 5], "target": 25}
    assert problem.summary_style == "tries"
    with pytest.raises(UnusableRow, match="'numbers' and 'target'"):
        made("(a-b)*c", verifier="expression")


def test_the_id_is_that_of_the_content():
    assert content_id(r"Is $\frac{1}{2}$ big?") == content_id(r"is  \left\dfrac{1}{2}\right\, Big?")
    assert content_id("What is 2 + 3?") == content_id("what  is 2+3?")
    assert content_id("What is 2 + 3?") != content_id("What is 2 + 4?")


@pytest.mark.parametrize("gold", ["yes", "No", r"\text{True}", "false."])
def test_yes_and_no_can_be_guessed(gold):
    assert is_guessable(gold)
    assert not is_guessable(gold + " 7")


def test_a_row_without_what_its_verifier_needs_is_refused():
    with pytest.raises(UnusableRow, match="no 'numbers' and 'target', which the expression verifier needs"):
        made("1+2", verifier="expression", numbers=[1, 2])
    with pytest.raises(UnusableRow, match="no 'family' and 'size' and 'seed' and 'index', which the reasoning-gym"):
        made("1", verifier="reasoning-gym", family="gcd")
