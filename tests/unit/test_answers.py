import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.answers import (
    answer_spans,
    extract_answer,
    format_score,
    has_balanced_braces,
    reasoning_end,
    unwrap_boxes,
    visible_text,
)


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("no block at all", "no block at all"),
        ("<think>a</think>b", "b"),
        ("opened in the prompt</think>b", "b"),
        ("<think>never closed", ""),
        ("<think>a</think>b<think>c", ""),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>I must write </think> here</think>d", "d"),
        ("<|channel>thought\na<channel|>b", "b"),
        ("<|channel>thought\nnever closed", ""),
        ("", ""),
    ],
)
def test_visible_text_is_what_stands_after_the_reasoning(text, visible):
    assert visible_text(text) == visible
    assert text[reasoning_end(text) :] == visible


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\fbox{42}", "42"),
        (r"\boxed {42}", "42"),
        ("\\boxed\n{42}", "42"),
        (r"\boxed{\boxed{42}}", "42"),
        (r"\boxed{ \fbox{ \boxed{42} } }", "42"),
        (r"$$\boxed{42}$$.", "42"),
        (r"\boxed{$\boxed{42}$}", "42"),
        (r"\boxed{\text{42}}", r"\text{42}"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\\boxed{4}", "4"),
        # the last box counts
        (r"I thought \boxed{2}, but it is \boxed{3}.", "3"),
        (r"\boxed{10} and then \boxed{42}", "42"),
        (r"\boxed{9} \boxed{9} \boxed{42}", "42"),
        # joined by a connector alone they are one list
        (r"\boxed{1} and \boxed{2} and \boxed{3}", "1, 2, 3"),
        (r"\boxed{(1, 2)}, \boxed{(2, 1)}", "(1, 2), (2, 1)"),
        (r"$$\boxed{(98, 2)} \quad \text{and} \quad \boxed{(99, 503)}$$", "(98, 2), (99, 503)"),
        (r"$\boxed{12}$, $\boxed{12}$", "12"),
        # unfinished, blank or absent
        (r"Therefore $\boxed{7", None),
        (r"\boxed{7} no, \boxed{\frac{1}{2}", None),
        (r"\boxed{7} so \boxed", None),
        # an earlier box that is never closed hides nothing
        (r"\boxed{ hm, so \boxed{42}.", "42"),
        (r"\boxed{a \boxed{b}", "b"),
        (r"\boxed{1}, \boxed{ \boxed{2}", "2"),
        (r"\boxed{ so \boxed{42}. Or \boxed{43", None),
        (r"\boxed{}", None),
        (r"\boxed{ \boxed{ } }", None),
        ("42", None),
        (r"\boxedmath{42}", None),
        # nothing in the reasoning counts
        (r"<think>\boxed{42}</think> done", None),
        (r"<think>\boxed{42}</think> \boxed{43}", "43"),
        (r"\boxed{42}</think>", None),
        (r"<think> \boxed{42}", None),
    ],
)
def test_boxed_answers(text, answer):
    assert extract_answer(text, "boxed") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>sum <answer> 48480 </answer>", "48480"),
        ("<answer>1</answer> wait <answer>2</answer>", "2"),
        ("<answer>1</answer> wait <answer>2", None),
        ("<answer><answer>1</answer></answer>", "1"),
        (r"<answer>\boxed{42}</answer>", "42"),
        (r"<answer>$\boxed{42}$</answer>", "42"),
        (r"<answer>the answer is \boxed{42}</answer>", "42"),
        (r"<answer>\boxed{42</answer>", None),
        ("<answer>  </answer>", None),
        ("<think><answer>1</answer></think> done", None),
        (r"\boxed{42}", None),
        ("the answer is 42", None),
    ],
)
def test_tagged_answers(text, answer):
    assert extract_answer(text, "tags") == answer


def test_a_box_may_be_as_long_as_the_visible_text():
    long = "1" + "0" * 5000
    assert extract_answer(rf"\boxed{{{long}}}", "boxed") == long


@pytest.mark.parametrize("style", ["tags", "boxed", "code"])
@pytest.mark.parametrize(
    "text",
    [
        "```\n" * 40_000,
        "```python\nx = 1\n" * 10_000,
        "```" + " " * 200_000 + "x",
        "def f(\n" * 20_000,
        r"\boxed{" * 40_000,
        r"\boxed{" * 20_000 + "}" * 20_000,
        "<answer>" * 40_000,
        "<think>" * 40_000,
        r"\boxed{1}, " * 20_000,
        "\\" * 200_000,
        r"\boxed" + " " * 200_000,
    ],
)
def test_hostile_repetition_is_read_in_linear_time(text, style):
    start = time.process_time()
    extract_answer(text, style)
    answer_spans(text, style)
    format_score(text, style, is_truncated=False)
    assert time.process_time() - start < 3.0


TAGS_FORM = "<think>reason</think>\nsummary\n<answer>42</answer>"


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (TAGS_FORM, 1.0),
        (TAGS_FORM.removeprefix("<think>"), 1.0),
        (TAGS_FORM + "\n", 1.0),
        ("\n" + TAGS_FORM, 1.0),
        ("<think></think> summary <answer>42</answer>", 1.0),
        ("hello " + TAGS_FORM, 0.0),
        (TAGS_FORM + " bye", 0.0),
        (TAGS_FORM + "</think>", 0.0),
        (TAGS_FORM + TAGS_FORM, 0.0),
        ("<think>a</think><answer>42</answer>", 0.0),
        ("<think>a</think>sum<answer></answer>", 0.0),
        (r"<think>a</think>sum<answer>\boxed{42</answer>", 0.0),
        ("<think>a</think>sum<answer>1</answer><answer>2</answer>", 0.0),
        ("<think>a</think>sum<answer>1<answer>2</answer>", 0.0),
        ("<think>a<think>b</think>sum<answer>1</answer>", 0.0),
        ("sum<answer>42</answer>", 0.0),
        ("<think>a sum<answer>42</answer>", 0.0),
        ("<think>a</think>sum<answer>42", 0.0),
        (r"<think>a</think>sum \boxed{42}", 0.0),
        ("<think>the tag <answer> is for the end</think>sum<answer>1</answer>", 1.0),
    ],
)
def test_format_of_tags_is_reasoning_then_summary_then_one_answer(text, score):
    assert format_score(text, "tags", is_truncated=False) == score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (r"so \boxed{42}", 1.0),
        (r"<think>a</think>so \boxed{42} done", 1.0),
        (r"\boxed{1} then \boxed{2}", 1.0),
        (r"\boxed{1} then \boxed{2", 0.0),
        (r"<think>\boxed{42}</think>", 0.0),
        ("42", 0.0),
    ],
)
def test_format_of_boxed_is_a_finished_box_after_the_reasoning(text, score):
    assert format_score(text, "boxed", is_truncated=False) == score


CODE_FORM = "<think>hm\n```python\nx = 0\n```\n</think>\nSo:\n```python\nx = 1\n```"


def test_a_program_is_read_from_the_visible_text_alone():
    assert extract_answer(CODE_FORM, "code") == "x = 1\n"
    assert [CODE_FORM[a:b] for a, b in answer_spans(CODE_FORM, "code")] == ["```python\nx = 1\n```"]
    assert extract_answer(CODE_FORM.partition("So:")[0], "code") is None
    assert extract_answer(CODE_FORM.partition("</think>")[0], "code") is None


def test_format_of_code_is_a_closed_block_tagged_as_python_after_the_reasoning():
    assert format_score(CODE_FORM, "code", is_truncated=False) == 1.0
    assert format_score(CODE_FORM.removesuffix("```"), "code", is_truncated=False) == 0.0
    assert format_score(CODE_FORM.partition("So:")[0], "code", is_truncated=False) == 0.0


@pytest.mark.parametrize(("text", "style"), [(TAGS_FORM, "tags"), (r"\boxed{42}", "boxed"), (CODE_FORM, "code")])
def test_a_truncated_completion_is_never_well_formed(text, style):
    assert format_score(text, style, is_truncated=False) == 1.0
    assert format_score(text, style, is_truncated=True) == 0.0


def test_answer_spans_cover_the_marks_with_their_wrapper():
    text = r"<think>\boxed{0}</think>a \boxed{1} b \fbox{\boxed{2}} c \boxed{3"
    assert [text[a:b] for a, b in answer_spans(text, "boxed")] == [r"\boxed{1}", r"\fbox{\boxed{2}}", r"\boxed{3"]
    text = r"\boxed{ so \boxed{1} c"
    assert [text[a:b] for a, b in answer_spans(text, "boxed")] == [r"\boxed{ so ", r"\boxed{1}"]
    text = "<answer>1</answer> b <answer>2"
    assert [text[a:b] for a, b in answer_spans(text, "tags")] == ["<answer>1</answer>", "<answer>2"]


pieces = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            r"\boxed{",
            r"\fbox {",
            "{",
            "}",
            r"\{",
            "\\",
            "42",
            " ",
            "$",
            ", ",
            "and",
            "x",
        ]
    ),
    max_size=25,
).map("".join)


@given(pieces, st.sampled_from(["tags", "boxed"]))
def test_any_text_is_read_without_an_exception_and_a_well_formed_one_has_an_answer(text, style):
    answer = extract_answer(text, style)
    assert answer is None or answer.strip() == answer != ""
    if format_score(text, style, is_truncated=False):
        assert answer is not None
    spans = answer_spans(text, style)
    assert all(a < b for a, b in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@given(pieces)
def test_extraction_is_idempotent(text):
    answer = extract_answer(text, "boxed")
    if answer is not None and "think>" not in answer and answer.count("boxed") + answer.count("fbox") == 0:
        assert extract_answer(rf"\boxed{{{answer}}}", "boxed") in (answer, unwrap_boxes(answer))


@given(pieces, pieces)
def test_text_before_closed_reasoning_never_changes_the_answer(before, text):
    if "think>" not in text:
        assert extract_answer(before + "</think>" + text, "boxed") == extract_answer(text, "boxed")


@pytest.mark.parametrize(
    ("text", "are_balanced"),
    [("", True), (r"\frac{1}{2}", True), (r"\frac{1}{", False), ("}{", False), (r"\{1, 2\}", True), (r"\{{1}", True)],
)
def test_braces_that_are_not_escaped_have_their_other_half(text, are_balanced):
    assert has_balanced_braces(text) is are_balanced
