import pytest

from agon.verifiers.foreign import stated_answer


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Final Answer: The volume of $ABCDEFGH$ is 120. I hope it is correct.", "120"),
        ("Final Answer: Jane started growing Sphere 3 hours ago.", "Jane started growing Sphere 3 hours ago"),
        ("The answer to the question is $x = 2$ because it fits.", "$x = 2$"),
        ("✅ Final Answer: **73**", "73"),
        ("**Final Answer**\n\\[\n\\boxed{5}\n\\]", "5"),
        ("the solution to the problem is $m \\in [2, 3]$", "$m \\in [2, 3]$"),
        ("x = 3 So, the pair that solves it is $(7, 6)$. <|im_start|>user", "$(7, 6)$"),
        ("Therefore it increases by 100%.", "it increases by 100%"),
        ("The answer is between 12 and 13.", "between 12 and 13"),
        ("<answer>4</answer>", "4"),
        ("<answer>4</answer> so the answer is 5", "5"),
        ("<answer>4", None),
        ("The answer is ", None),
        ("16 - 3 - 4 = <<16-3-4=9>>9\nA: 18", "18"),
        ("A: 18\nB: 20", None),
        ("as \\boxed{25} ######\n noise", "25"),
        ("nothing is stated", None),
        ("", None),
    ],
)
def test_the_last_statement_counts(text, stated):
    assert stated_answer(text) == stated
