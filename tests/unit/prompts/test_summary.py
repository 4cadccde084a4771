from dataclasses import replace

import pytest

from agon.prompts.summary import summarize
from agon.prompts.withhold import WITHHELD

W = WITHHELD


@pytest.fixture
def summary_of(qwen_like, problem, completion):
    def summarized(text, *, style="boxed", max_tokens=500, stop_reason="stop", problem=problem, **options):
        made = completion(text, stop_reason)
        return summarize(problem, made, style=style, tokenizer=qwen_like, max_tokens=max_tokens, **options)

    return summarized


def test_the_summary_is_the_text_after_the_reasoning_without_its_answer(summary_of):
    summary = summary_of(r"<think>6 * 7, hmm \boxed{41}</think>I used tables. So it is 42. \boxed{42}")
    assert summary.text == f"I used tables. So it is {W}. {W}"
    assert (summary.is_empty, summary.has_leak, summary.num_withheld, summary.is_cut) == (False, False, 2, False)
    assert summary.num_tokens == len(summary.text)  # one token a byte


def test_a_dropped_answer_takes_its_sentence_with_it(summary_of):
    text = "I used tables. So 6 * 7 = 42. Check it.\n\\boxed{42}"
    summary = summary_of(text, withholding="drop")
    assert summary.text == "I used tables. Check it."
    assert (summary.is_empty, summary.has_leak, summary.num_withheld) == (False, False, 2)
    assert summary_of(text).text == f"I used tables. So 6 * 7 = {W}. Check it.\n{W}"


def test_a_draft_of_one_sentence_with_the_answer_leaves_nothing_to_read_when_dropped(summary_of):
    summary = summary_of(r"So it is \boxed{42}", withholding="drop")
    assert (summary.text, summary.is_empty, summary.num_withheld) == ("(no summary)", True, 1)


def test_an_answer_that_is_shown_on_purpose_is_not_dropped(summary_of):
    assert summary_of(r"So it is \boxed{42}", withholding="drop", shows_answer=True).text == r"So it is \boxed{42}"


def test_without_a_reasoning_block_the_whole_text_is_the_summary(summary_of):
    assert summary_of("I used tables. <answer>42</answer>", style="tags").text == f"I used tables. {W}"


@pytest.mark.parametrize(
    ("text", "stop_reason"),
    [
        ("", "stop"),
        ("  \n", "stop"),
        ("<think>never closed", "stop"),
        ("<think>a</think>", "stop"),
        (r"<think>a</think>\boxed{42}", "stop"),
        ("<think>a</think><answer>42</answer>", "stop"),
        (r"<think>a</think>A fine summary. \boxed{42}", "length"),
    ],
)
def test_an_empty_or_truncated_draft_becomes_the_fixed_text(summary_of, text, stop_reason):
    summary = summary_of(text, stop_reason=stop_reason)
    assert summary.text == "(no summary)"
    assert summary.is_empty
    assert not summary.has_leak


def test_an_answer_that_is_still_to_be_read_is_a_leak(summary_of):
    assert summary_of(r"There are 42 eggs in 7 boxes. Count. \boxed{42}").has_leak
    assert not summary_of(r"There are 43 eggs in 7 boxes. Count. \boxed{42}").has_leak


def test_the_front_is_cut_and_the_leak_is_that_of_what_is_shown(summary_of):
    text = r"There are 42 eggs in 7 boxes. Count them all. \boxed{42}"
    summary = summary_of(text, max_tokens=30)
    assert summary.is_cut
    assert summary.num_tokens == len(summary.text) <= 30
    assert f"There are 42 eggs in 7 boxes. Count them all. {W}".endswith(summary.text)
    assert not summary.has_leak


def test_a_cut_never_splits_a_character(summary_of):
    summary = summary_of("\u6c49" * 40 + r" \boxed{42}", max_tokens=31)
    # the character is three bytes, so three tokens here: " [withheld]" takes 11, and six of them fit into the other 20.
    assert summary.text == "\u6c49" * 6 + f" {W}"
    assert summary.num_tokens == 29


def test_special_characters_of_html_stay(summary_of):
    assert summary_of(r"if x < 3 & y > 2 then \boxed{42}").text == f"if x < 3 & y > 2 then {W}"


def test_the_summary_of_a_program_is_the_words_around_it(summary_of):
    program = "```python\ndef double(x):\n    return x + x + zero(x)\n```"
    summary = summary_of(f"<think>{program}</think>Adding is enough.\n{program}\nDone.", style="code")
    assert summary.text == f"Adding is enough.\n{W}\nDone."
    assert (summary.is_empty, summary.has_leak, summary.num_withheld) == (False, False, 1)
    assert summary_of(program, style="code").is_empty
    assert summary_of(f"It is return x + x + zero(x).\n{program}", style="code").has_leak


def test_tries_that_hit_are_withheld_and_failed_ones_stay(summary_of, countdown_problem):
    text = "<think>x</think>(a+b) =19 ; (a-b) *c =25 <answer>(a-b) *c</answer>"
    summary = summary_of(text, style="tags", problem=countdown_problem)
    assert (summary.text, summary.num_withheld, summary.has_leak) == ("(a+b) =19", 1, False)


def test_a_failed_answer_stays_among_the_tries(summary_of, countdown_problem):
    text = "<think>x</think>(a+b) =19 ; (a-b) +c =10 <answer>(a-b) +c</answer>"
    summary = summary_of(text, style="tags", problem=countdown_problem)
    assert (summary.text, summary.num_withheld, summary.has_leak) == ("(a+b) =19 ; (a-b) +c =10", 0, False)


def test_a_right_answer_goes_even_under_a_wrong_value(summary_of, countdown_problem):
    text = "<think>x</think>(a+b) =19 ; (a-b) *c =24 <answer>(a-b) *c</answer>"
    summary = summary_of(text, style="tags", problem=countdown_problem)
    assert (summary.text, summary.num_withheld, summary.has_leak) == ("(a+b) =19", 1, False)


def test_a_hit_shown_under_a_wrong_value_is_a_leak(summary_of, countdown_problem):
    text = "<think>x</think>(a-b) *c =24 ; (a+b) =19 <answer>(a+b) *c</answer>"
    assert summary_of(text, style="tags", problem=countdown_problem).has_leak


def test_tries_of_a_truncated_or_blank_draft_are_empty(summary_of, countdown_problem):
    for text, stop_reason in (("<think>x</think>(a+b) =19", "length"), ("<think>x</think> nothing", "stop")):
        assert summary_of(text, style="tags", stop_reason=stop_reason, problem=countdown_problem).is_empty


def test_the_problem_chooses_the_style_of_the_summary(summary_of, countdown_problem):
    as_text = replace(countdown_problem, summary_style="text")
    text = "<think>x</think>(a+b) =19 ; (a-b) *c =25 <answer>(a-b) *c</answer>"
    assert "25" in summary_of(text, style="tags", problem=as_text).text


@pytest.mark.parametrize(
    ("text", "style", "shown"),
    [
        (r"<think>6 * 7</think>I used tables. \boxed{42}", "boxed", r"I used tables. \boxed{42}"),
        (r"<think>6 * 7</think>\boxed{42}", "boxed", r"\boxed{42}"),
        ("<think>6 * 7</think>Tables.<answer>42</answer>", "tags", "Tables.<answer>42</answer>"),
        ("Add.\n```python\nreturn x + x + zero(x)\n```", "code", "Add.\n```python\nreturn x + x + zero(x)\n```"),
    ],
)
def test_a_shown_answer_stays_where_it_stands_and_counts_as_readable(summary_of, text, style, shown):
    summary = summary_of(text, style=style, shows_answer=True)
    assert summary.text == shown
    assert (summary.is_empty, summary.shows_answer, summary.num_withheld) == (False, True, 0)
    # Nothing leaked against its will, but the answer can be read: that is what the count says.
    assert summary.has_leak


def test_a_draft_without_an_answer_shows_none(summary_of):
    summary = summary_of("I used tables, and gave up.", shows_answer=True)
    assert (summary.shows_answer, summary.has_leak) == (True, False)
    assert not summary_of("I used tables, and gave up.").shows_answer


def test_a_truncated_draft_has_no_answer_to_show(summary_of):
    summary = summary_of(r"<think>a</think>Fine. \boxed{42}", stop_reason="length", shows_answer=True)
    assert (summary.text, summary.is_empty, summary.has_leak) == ("(no summary)", True, False)


def test_tries_with_the_hit_shown_differ_from_those_without_by_the_hit_alone(summary_of, countdown_problem):
    text = "<think>x</think>(a+b) =19 ; (a-b) *c =25 <answer>(a-b) *c</answer>"
    summary = summary_of(text, style="tags", problem=countdown_problem, shows_answer=True)
    assert (summary.text, summary.num_withheld, summary.has_leak) == ("(a+b) =19 ; (a-b) *c =25", 0, True)
    failed = "<think>x</think>(a+b) =19 ; (a-b) +c =10 <answer>(a-b) +c</answer>"
    assert not summary_of(failed, style="tags", problem=countdown_problem, shows_answer=True).has_leak
