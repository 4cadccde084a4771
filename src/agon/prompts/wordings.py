"""The wording of prompts, by version. A changed sentence is a new version: results of different wordings are not one series.

The paper's prompts are not public (arXiv:2607.07690): it only says that the challenger is told not to trust its rival, to verify
independently, and to aim at being right where the rival is wrong. `plain-v1` says that in our words. `plain-v2` says the same in another
order: the rival first, an own solution asked for last (docs/evidence.md compares them). `plain-v3` ends a challenge
with the draft's own prompt, word for word. `symbols-v1` is the few symbols that the embedded base was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agon import countdown_text
from agon.records import AnswerStyle, Problem, Summary

NO_SUMMARY = "(no summary)"


class Aim(NamedTuple):
    """How many tokens a completion should take; with `is_limit` at most so many."""

    num_tokens: int
    is_limit: bool


class Wording(NamedTuple):
    """How a draft and a challenge are asked for, as the text of one user turn. `aim` states a length; None: it has no words for one."""

    draft: Callable[[Problem, AnswerStyle], str]
    challenge: Callable[[Problem, Sequence[Summary], AnswerStyle], str]
    aim: Callable[[Aim], str] | None


_FORM: dict[AnswerStyle, str] = {
    "tags": (
        "First reason step by step between <think> and </think>. Then write a short summary of your approach and of what you "
        "established, without the final answer. Then give the final answer alone between <answer> and </answer>."
    ),
    "boxed": r"Reason step by step, and put your final answer within \boxed{}.",
    "code": (
        "First reason step by step, in words. Then give the whole program in one block that starts with ```python and ends with "
        "```. Only that block is read, and it is run as it stands."
    ),
}

_ONE_RIVAL = (
    "A rival has attempted the problem below. You see a summary of the attempt{answer}. Do not trust the "
    "rival: the attempt may be wrong. Solve the problem yourself, verify independently whatever you take from the summary, and "
    "aim to be right where the rival is wrong."
)
_MANY_RIVALS = (
    "{count} rivals have attempted the problem below. You see a summary of each attempt{answer}. Do not "
    "trust the rivals: any attempt, or all of them, may be wrong. Solve the problem yourself, verify independently whatever you "
    "take from the summaries, and aim to be right where a rival is wrong."
)

_OWN_SOLUTION = "Now write your own solution of the problem, from its beginning."


def _plain_draft(problem: Problem, style: AnswerStyle) -> str:
    return f"Solve the problem below. {_FORM[style]}\n\nProblem:\n{problem.question}"


def _plain_challenge(problem: Problem, summaries: Sequence[Summary], style: AnswerStyle) -> str:
    intro, shown = _rivals(summaries)
    return f"{intro} {_FORM[style]}\n\nProblem:\n{problem.question}\n\n{shown}"


def _last_word_challenge(problem: Problem, summaries: Sequence[Summary], style: AnswerStyle) -> str:
    intro, shown = _rivals(summaries)
    return f"{intro}\n\n{shown}\n\nProblem:\n{problem.question}\n\n{_OWN_SOLUTION} {_FORM[style]}"


def _draft_last_challenge(problem: Problem, summaries: Sequence[Summary], style: AnswerStyle) -> str:
    intro, shown = _rivals(summaries)
    return f"{intro}\n\n{shown}\n\n{_plain_draft(problem, style)}"


def _rivals(summaries: Sequence[Summary]) -> tuple[str, str]:
    """Return what a challenger is told of its rivals, and what it is shown of them."""
    is_shown = any(summary.shows_answer for summary in summaries)
    if len(summaries) == 1:
        answer = " with its final answer" if is_shown else "; the final answer is withheld"
        intro, shown = _ONE_RIVAL.format(answer=answer), f"The rival's summary:\n{summaries[0].text}"
    else:
        answer = " with its final answer" if is_shown else "; the final answers are withheld"
        intro = _MANY_RIVALS.format(count=len(summaries), answer=answer)
        shown = "\n\n".join(
            f"Summary of rival {number}:\n{summary.text}" for number, summary in enumerate(summaries, 1)
        )
    return intro, shown


def _plain_aim(aim: Aim) -> str:
    return f"Use {'at most' if aim.is_limit else 'about'} {aim.num_tokens} tokens in all."


def _symbols_draft(problem: Problem, style: AnswerStyle) -> str:
    return problem.question


def _symbols_challenge(problem: Problem, summaries: Sequence[Summary], style: AnswerStyle) -> str:
    return countdown_text.challenge_question(
        problem.question, ["" if summary.is_empty else summary.text for summary in summaries]
    )


WORDINGS: dict[str, Wording] = {
    "plain-v1": Wording(_plain_draft, _plain_challenge, _plain_aim),
    "plain-v2": Wording(_plain_draft, _last_word_challenge, _plain_aim),
    "plain-v3": Wording(_plain_draft, _draft_last_challenge, _plain_aim),
    "symbols-v1": Wording(_symbols_draft, _symbols_challenge, None),
}
