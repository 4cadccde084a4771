import pytest

from agon.verifiers.wrapping import without_wrapping


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boldsymbol{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"$\bm{12}$", "12"),
        (r"\textcolor{blue}{\underline{x+1}}", "x+1"),
        (r"\color{red} 12", "12"),
        (r"\begin{aligned} x &= 5 \end{aligned}", "x = 5"),
        (r"\text{The answer is } 12", "12"),
        (r"\text{The answer is 12}", r"\text{12}"),
        ("Final answer: 12", "12"),
        ("12\u200b", "12"),
        ("`12`", "12"),
        (r"\boxed{\boldsymbol{\boxed{12}}}", "12"),
        # what wraps a part stays, or leaves its braces
        (r"\boldsymbol{x}+\boldsymbol{y}", "{x}+{y}"),
        (r"\mathbf{v} + \mathbf{w}", r"\mathbf{v} + \mathbf{w}"),
        (r"\begin{aligned}x &= 1 \\ y &= 2\end{aligned}", r"\begin{aligned}x &= 1 \\ y &= 2\end{aligned}"),
        ("*1*2*", "*1*2*"),
        ("the answer is", "the answer is"),
    ],
)
def test_what_stands_around_a_whole_answer_goes(text, answer):
    assert without_wrapping(text) == answer
