import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.answers import answer_spans
from agon.prompts.withhold import WITHHELD, is_readable, withhold_answer, without_withheld

W = WITHHELD


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"We add. \boxed{42}", f"We add. {W}"),
        (r"$\boxed{42}$ and \fbox{42}", f"${W}$ and {W}"),
        (r"We add. \boxed{42", f"We add. {W}"),
        ("We add. <answer>42</answer>", f"We add. {W}"),
        ("We add. <answer>42", f"We add. {W}"),
        ("We add. </answer> Done.", f"We add. {W} Done."),
        # a value claimed in words goes, whatever it is
        ("The answer is 42.", f"The answer is {W}."),
        ("The final answer is: $42$. I hope it is correct.", f"The final answer is: {W}. I hope it is correct."),
        ("**Final Answer:** 42", f"**Final Answer:** {W}"),
        ("**Answer: 42**", f"**Answer: {W}"),
        ("#### 1,234", f"#### {W}"),
        ("A: 26", f"A: {W}"),
        ("the answer is 12 + 30 = 42.", f"the answer is 12 + 30 = {W}."),
        (r"The answer is \(\frac{1}{2}\).", f"The answer is {W}."),
        (r"The answer is 41. \boxed{42}", f"The answer is {W}. {W}"),
        # restatements of the boxed answer
        (r"So x = 42. \boxed{42}", f"So x = {W}. {W}"),
        (r"Adding gives 12 + 30 = 42. \boxed{42}", f"Adding gives 12 + 30 = {W}. {W}"),
        (r"\[ 12 + 30 = 42 \]" + "\n" + r"\boxed{42}", rf"\[ 12 + 30 = {W} \]" + f"\n{W}"),
        (r"Therefore x = 42 holds. Check it. \boxed{42}", f"Therefore x = {W} holds. Check it. {W}"),
        (r"He has **42** eggs. Nice. \boxed{42}", f"He has **{W}** eggs. Nice. {W}"),
        (r"He has 42 eggs. \boxed{42}", f"He has {W} eggs. {W}"),
        ("First.\n$42$\nThen.\n\\boxed{42}", f"First.\n${W}$\nThen.\n{W}"),
        # other spellings of the same value
        (r"So it is 1,234. \boxed{1234}", f"So it is {W}. {W}"),
        (r"So it is 1234. \boxed{1,234}", f"So it is {W}. {W}"),
        (r"So it is 42.00. \boxed{42}", f"So it is {W}. {W}"),
        (r"So it is 0.5 or 1/2. \boxed{\frac{1}{2}}", f"So it is {W} or {W}. {W}"),
        (r"So it is $\dfrac{1}{2}$. \boxed{\frac12}", f"So it is ${W}$. {W}"),
        (r"So it is 25\%. \boxed{25\%}", rf"So it is {W}. {W}"),
        (r"Hence \( x = -5 \). \boxed{-5}", rf"Hence \( x = {W} \). {W}"),
        (r"Therefore it is even. \boxed{\text{Even}}", f"Therefore it is {W}. {W}"),
        (r"Thus (3, \pi/2). \boxed{(3,\pi/2)}", f"Thus {W}. {W}"),
    ],
)
def test_claims_of_the_answer_are_withheld(text, shown):
    assert withhold_answer(text, "boxed").text == shown


@pytest.mark.parametrize(
    "text",
    [
        # the answer's digits where nothing is claimed
        "There are 2 trains and 12 cars. The first takes 2 hours. Subtract.",
        "Let x_2 = 25 + 2 * 3 and y = 2x. Solve for y.",
        "2 + 2 is more than 2 minus 0.2, and 20 is more. Solve.",
        "The answer is obtained by adding both. Solve.",
        "We answer the 2 questions in turn. Solve.",
    ],
)
def test_digits_outside_claims_are_never_touched(text):
    assert withhold_answer(rf"{text} \boxed{{2}}", "boxed").text == rf"{text} {W}"


@pytest.mark.parametrize(
    "text", ["So it is 142.", "So it is 42.5.", "So it is 3.42.", "So it is 42,000.", "So it is a42."]
)
def test_a_longer_number_that_holds_the_answer_is_another_number(text):
    assert withhold_answer(rf"{text} \boxed{{42}}", "boxed").text == f"{text} {W}"


@pytest.mark.parametrize(
    ("text", "answer", "is_there"),
    [
        ("it is 42 then", "42", True),
        ("it is 1,234 then", "1234", True),
        ("it is (1,42)", "42", True),
        ("it is 142", "42", False),
        ("it is 4 2", "42", False),
        ("it is $x=42$", "42", True),
        ("EVEN", r"\text{even}", True),
        ("uneven", "even", False),
        ("anything", None, False),
        ("anything", "", False),
    ],
)
def test_a_readable_answer_is_a_whole_token(text, answer, is_there):
    assert is_readable(text, answer) is is_there


def test_the_last_claim_in_words_is_the_answer_when_nothing_is_marked():
    result = withhold_answer("There are 26 of them. Thus 26. The answer is 26.", "boxed")
    assert result.answer == "26"
    assert result.text == f"There are 26 of them. Thus {W}. The answer is {W}."


pieces = st.lists(
    st.sampled_from(
        [
            r"\boxed{",
            r"\fbox{",
            "}",
            "<answer>",
            "</answer>",
            "42",
            "42",
            "7",
            "3.5",
            " ",
            ". ",
            "\n",
            "= ",
            "Therefore ",
            "$",
            "The answer is ",
            "**",
            "#### ",
            "Final answer: ",
            "x",
            "+",
            r"\boxed",
            r"\(",
            r"\)",
            ", ",
        ]
    ),
    max_size=30,
).map("".join)


@given(pieces, st.sampled_from(["tags", "boxed"]))
def test_no_answer_block_or_box_is_left(text, style):
    shown = withhold_answer(text, style).text
    assert answer_spans(shown, "tags") == []
    assert answer_spans(shown, "boxed") == []
    assert "</answer>" not in shown


def test_two_phrases_in_one_sentence_claim_a_value_each():
    assert withhold_answer("The answer is 42Final answer: = 42", "tags").text == f"The answer is {W}Final answer: = {W}"


@given(pieces, st.sampled_from(["tags", "boxed"]))
def test_withholding_twice_changes_nothing_more(text, style):
    once = withhold_answer(text, style).text
    twice = withhold_answer(once, style)
    assert twice.text == once
    assert twice.num_spans == 0


words = st.sampled_from(["then", "2", "7", "19", "of", "x", "+", "apples", "12", "0.7", "cars"])


@given(
    st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=5),
    st.sampled_from(["2", "7", "12"]),
)
def test_sentences_that_claim_nothing_stay_as_they_are(sentences, answer):
    # the closing sentence may claim; those before it say nothing that looks like a claim.
    body = ". ".join(f"Given {sentence} more" for sentence in sentences) + "."
    shown = withhold_answer(rf"{body} Solve it. \boxed{{{answer}}}", "boxed").text
    assert shown.startswith(body)


@given(pieces)
def test_only_the_answer_and_claimed_values_disappear(text):
    if "answer" in text or "boxed" in text or "fbox" in text or "###" in text:
        return
    shown = withhold_answer(text + "\n\\boxed{42}", "boxed").text
    # 7 and 3.5 are not the answer: each is still there as often as before.
    for other in (r"(?<!\d)7", r"3\.5"):
        assert len(re.findall(other, shown)) == len(re.findall(other, text))


@pytest.mark.parametrize(
    "text",
    [
        "the answer is " * 3000,
        "= 42 " * 10000 + r"\boxed{42}",
        "**" * 20000 + r"\boxed{4}",
        "answer to " * 5000,
        "$" * 40000,
        r"1,\! " * 10000 + r"\boxed{1}",
        "\n" * 50000 + r"\boxed{1}",
        r"\(" * 20000,
        "answer is \\[" * 4000,
        "5\n" * 30000 + r"\boxed{5}",
        "Therefore **5**. " * 4000 + r"\boxed{5}",
        "." * 60000 + r"x = 5 \boxed{5}",
        f"{W}{'!' * 60000}x",
        f"{W} " * 6000,
    ],
)
def test_hostile_repetition_is_read_quickly(text):
    start = time.process_time()
    withhold_answer(text, "boxed")
    without_withheld(text)
    assert time.process_time() - start < 3.0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("We add.", "We add."),
        (f"We add. {W}", "We add."),
        (f"We add. So it is {W}. Now check.", "We add. Now check."),
        (f"First 3 + 4 = 7.\nThen 7 * 6 = {W}.\nThus {W}", "First 3 + 4 = 7.\n\n"),
        (f"One.\n\nSo {W}.\n\nTwo.", "One.\n\nTwo."),
        (f"Add 0.5 and {W}. Done.", " Done."),
        ("\\[\n48 + 24 = " + W + "\n\\]\nNow\n", "\nNow\n"),
        ("$$\n" + W + "\n$$ and", " and"),
        ("\\begin{align*}\nx &= " + W + "\n\\end{align*} and", " and"),
        ("\\[\n48 + 24 = 72\n\\]", "\\[\n48 + 24 = 72\n\\]"),
        (W, ""),
    ],
)
def test_sentences_that_show_the_mark_are_left_out(text, left):
    assert without_withheld(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"1. Add.\n2. So {W}.\n3. Check.", "1. Add.\n\n3. Check."),
        (f"Add.\n  - 2. So {W}", "Add.\n"),
        (f"Add.\nStep 2. So {W}. Check.", "Add.\n Check."),
        ("Add. It is 42.\n2.\n" + W, "Add. It is 42.\n2.\n"),
        (f"Add. Mrs. Lee has {W} eggs. Check.", "Add. Check."),
        (f"Add, e.g. as {W} (i.e. {W}). Check vs. 3. Done", " Check vs. 3. Done"),
        (f"Dr. Lee adds. So {W}", "Dr. Lee adds."),
        (f"The sums. So {W}", "The sums."),
    ],
)
def test_the_number_of_a_list_and_a_title_go_with_their_sentence(text, left):
    assert without_withheld(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # a sentence that ends before its closing sign
        (f"The area:\n\\[ ad = {W}. \\]\nNow.", "The area:\n\nNow."),
        (f"The sum is \\[ 3 + 4 = {W}. \\] Next.", " Next."),
        # of several lines, those without the answer stay, between both signs
        (f"\\[ a = 3.\n b = {W} \\]\nNow.", "\\[ a = 3.\n\\]\nNow."),
        (f"So {W}: \\[\n3 + 4\n\\]\nNow.", "\\[\n3 + 4\n\\]\nNow."),
        (
            f"\\[\\begin{{aligned}} a &= 3 \\\\\n b &= {W} \\end{{aligned}}\\]\nNow.",
            "\\[\\begin{aligned} a &= 3 \\\\\n\\end{aligned}\\]\nNow.",
        ),
        (
            f"\\begin{{cases}} x = {W} \\\\\n y = 3 \\end{{cases}} Now.",
            "\\begin{cases}\n y = 3 \\end{cases} Now.",
        ),
        # the end of a line stays with the sign that ends it
        (f"Add \\(2. So 2 + 3\\) is {W}:\n3 + 4", "Add \\(2.\\)\n3 + 4"),
        # an environment alone in its formula, and a table
        (f"We get\n\\[\n\\begin{{aligned}}\nx &= {W} \\\\\n\\end{{aligned}}\n\\]\nNow.", "We get\n\nNow."),
        (f"We get\n\\begin{{array}}{{rcl}}\nx &=& {W}\n\\end{{array}}\nNow.", "We get\n\nNow."),
        # two formulas side by side are not an empty one, and one that was always empty is not ours
        (f"$$a = 1$$\n$$b = 2$$\nSo {W}.", "$$a = 1$$\n$$b = 2$$\n"),
        (f"\\[ \\] a.\nSo {W}.", "\\[ \\] a.\n"),
        # no sign of a formula
        (f"a \\\\[4pt]\nb = {W} \\\\[4pt]\nc", "a \\\\[4pt]\nc"),
        (f"It is \\$\\$ 3. So {W}", "It is \\$\\$ 3."),
        # digits on both sides of a lost formula do not become one number
        (f"4\\[\n{W}\n\\]2", "4 2"),
    ],
)
def test_what_is_left_of_a_formula_stands_between_both_its_signs(text, left):
    assert without_withheld(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"It prints\n```output\n{W}\n```\nDone.", "It prints\n\nDone."),
        (f"```python\nx = 3\nprint({W})\n```\nDone.", "```python\nx = 3\n```\nDone."),
        (f"So {W}: ```python\nx = 3\n``` Done.", "```python\nx = 3\n``` Done."),
        (f"**Add 3. So {W}** Then. Done.", "**Add 3.** Done."),
        # a power is not bold, and bold text ends with its line
        (f"Note 2**3 = 8. So 2**4 = {W}. End.", "Note 2**3 = 8. End."),
        (f"a (**b.\nSo **{W}** it is", "a (**b.\n"),
    ],
)
def test_what_is_left_of_a_program_or_of_bold_text_stands_between_both_its_signs(text, left):
    assert without_withheld(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Now:\n\\[ \\frac{{4!}}{{2! \\cdot {W}}} = 3! \\]\nDone.", "Now:\nDone."),
        (f"Add. It is n! = {W}. Done.", "Add. Done."),
        (f"Add 1 + 2 + ... + 8 = {W}. Done.", " Done."),
        (f"Wow, it is 4! So {W}. Well... So {W}. Done.", "Wow, it is 4! Well... Done."),
    ],
)
def test_a_factorial_and_dots_end_no_sentence_that_goes_on(text, left):
    assert without_withheld(text) == left


def test_a_full_stop_of_chinese_ends_a_sentence_without_a_space():
    text = f"\u5148\u7b97 3+4=7\u3002\u6240\u4ee5\u662f{W}\u3002\u518d\u7b97\uff01"
    assert without_withheld(text) == "\u5148\u7b97 3+4=7\u3002\u518d\u7b97\uff01"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"One.\r\n\r\nSo 6 * 7 = {W}\r\n\r\nTwo.\r\n", "One.\r\n\nTwo.\r\n"),
        (f"One:\r\n\\[\r\n{W}\r\n\\]\r\nTwo.\r\n", "One:\r\n\r\nTwo.\r\n"),
        (f"One:\n\n  \\[\n  {W}\n  \\]\n\nTwo.", "One:\n\nTwo."),
    ],
)
def test_a_lost_formula_leaves_at_most_one_blank_line(text, left):
    assert without_withheld(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"We add.\n\n**Final Answer**\n{W}", "We add.\n"),
        (f"We add.\n\n### Final Answer:\n\\[\n{W}\n\\]\n", "We add.\n"),
        (f"We add.\n**Answer:**\n\nThus, the answer is:\n$${W}$$", "We add."),
        (f"We add. Therefore, the final answer is:\n{W}", "We add."),
        (f"Final answer:\n{W}", ""),
        # what follows, or says more than that an answer comes
        (f"Answer:\n{W}\nWe add.", "Answer:\nWe add."),
        (f"We add.\nAdd 3 to the answer\n{W}", "We add.\nAdd 3 to the answer\n"),
        (f"We add.\nThe sum is:\n{W}", "We add.\nThe sum is:\n"),
    ],
)
def test_an_announcement_of_the_answer_goes_with_it_from_the_end(text, left):
    assert without_withheld(text) == left


def test_a_text_without_the_mark_comes_back_as_it_is():
    assert without_withheld("We add.\n\n\n\n\\[ \\] Done.") == "We add.\n\n\n\n\\[ \\] Done."


@given(
    st.lists(
        st.sampled_from(["We add. ", "3 + 4 = 7\n", W, f"So {W}. ", "\\[\n", "\n\\]", "0.5", "? "]), max_size=12
    ).map("".join)
)
def test_what_is_left_shows_no_mark_and_is_part_of_the_text(text):
    left = without_withheld(text)
    assert WITHHELD not in left
    signs = iter("".join(text.split()))
    assert all(sign in signs for sign in "".join(left.split()))  # in the same order


blocks = st.lists(
    st.sampled_from(
        [
            "We add. ",
            f"So {W}. ",
            "Then\n\n",
            f"\\[ x = {W}. \\] ",
            f"\\[ a = 3. \\quad b = {W} \\]\n",
            f"\\[\n\\begin{{aligned}}\n a &= 3 \\\\\n b &= {W}\n\\end{{aligned}}\n\\]\n",
            f"\\[ \\begin{{aligned}} b &= {W} \\\\[4pt]\n a &= 3 \\end{{aligned}} \\] ",
            "$$ a $$ ",
            f"$$\n{W}\n$$",
            f"**Add. So {W}** ",
            f"```\nx\nprint({W})\n``` ",
            f"Now \\(b. c = {W}\\) ",
        ]
    ),
    max_size=12,
).map("".join)


@given(blocks)
def test_no_sign_is_left_without_its_other_half(text):
    left = without_withheld(text)
    for opening, closing in (("\\[", "\\]"), ("\\(", "\\)"), ("\\begin", "\\end")):
        assert left.replace("\\\\[", "").count(opening) == left.count(closing)
    for sign in ("$$", "**", "```"):
        assert left.count(sign) % 2 == 0
