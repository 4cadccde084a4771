import itertools

from agon.countdown_text import FIRST_MOVES, SECOND_MOVES
from agon.tasks.countdown import (
    all_questions,
    countdown_problems,
    countdown_splits,
    first_value,
    hitting_first_moves,
    is_hard,
    second_moves_after,
    second_value,
    solutions,
    split_of,
)


def independent_first_moves(numbers, target):
    """Written apart from the module: Python's own arithmetic over every order of the numbers."""
    found = set()
    for x, y, z in itertools.permutations("abc"):
        if x > y:
            continue
        left, right, last = (numbers["abc".index(slot)] for slot in (x, y, z))
        for first, value in (("+", left + right), ("-", left - right), ("*", left * right)):
            if 0 <= value <= 32 and target in (value + last, value - last, value * last):
                found.add(f"({x}{first}{y})")
    return found


def test_problem_count_is_that_of_an_independent_enumeration():
    hard = [
        (numbers, target)
        for numbers, target in all_questions()
        if 1 <= len(independent_first_moves(numbers, target)) <= 2
    ]
    assert len(countdown_problems()) == len(hard) == 2419
    assert {(tuple(p.details["numbers"]), p.details["target"]) for p in countdown_problems()} == set(hard)


def test_hitting_first_moves_agree_with_an_independent_enumeration():
    for numbers, target in itertools.islice(all_questions(), 0, None, 7):
        assert set(hitting_first_moves(numbers, target)) == independent_first_moves(numbers, target)


def test_all_questions_are_680_number_sets_times_32_targets():
    # multisets of three out of 15: C(17, 3) = 680
    questions = list(all_questions())
    assert len(questions) == len(set(questions)) == 680 * 32


def test_splits_share_no_numbers_and_target():
    splits = countdown_splits()
    keys = {
        name: {(tuple(p.details["numbers"]), p.details["target"]) for p in problems}
        for name, problems in splits.items()
    }
    assert {name: len(found) for name, found in keys.items()} == {"train": 1929, "dev": 200, "test": 290}
    assert len(set().union(*keys.values())) == 2419
    assert all(split_of(problem) == name for name, problems in splits.items() for problem in problems)


def test_splits_do_not_move():
    # The shipped base was built without these: a change here would let it have seen the test.
    splits = countdown_splits()
    assert [problem.question for problem in splits["test"][:2]] == ["a 11 b 3 c 2 =6", "a 10 b 6 c 2 =22"]
    assert [problem.question for problem in splits["dev"][:2]] == ["a 6 b 4 c 1 =1", "a 8 b 3 c 2 =10"]


def test_solutions_by_hand():
    # 12 - 7 = 5 and 5 * 5 = 25; nothing else comes to 25
    assert solutions((12, 7, 5), 25) == ("(a-b)*c",)
    assert hitting_first_moves((12, 7, 5), 24) == ("(a+b)", "(a+c)", "(b+c)", "(b-c)")
    assert not is_hard((12, 7, 5), 24)
    assert is_hard((12, 7, 5), 25)


def test_values_out_of_range_are_no_values():
    assert first_value("(a*b)", (12, 7, 5)) is None
    assert first_value("(a-c)", (12, 7, 5)) == 7
    assert second_value(7, "-a", (12, 7, 5)) is None
    assert second_value(19, "+a", (12, 7, 5)) == 31


def test_each_first_move_has_three_second_moves_on_the_number_left():
    assert second_moves_after("(a*c)") == ("+b", "-b", "*b")
    assert sorted(move for first in FIRST_MOVES[::3] for move in second_moves_after(first)) == sorted(SECOND_MOVES)


def test_problem_says_what_its_verifier_and_prompt_need():
    problem = countdown_problems()[0]
    a, b, c = problem.details["numbers"]
    assert problem.question == f"a {a} b {b} c {c} ={problem.details['target']}"
    assert (problem.verifier, problem.summary_style, problem.task) == ("expression", "tries", "countdown-lite")
    assert problem.gold in solutions((a, b, c), problem.details["target"])
