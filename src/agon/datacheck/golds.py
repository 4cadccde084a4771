"""Gold answers that could never be matched: found before anything is trained on them or measured with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agon.config import VerifierSettings
from agon.records import AnswerStyle, Completion, Problem, Verdict
from agon.tasks.data import TaskData
from agon.tasks.table import shown
from agon.verifiers.golds import unreadable_golds
from agon.verifiers.registry import open_verifiers

Progress = Callable[[str, int, int], None]
"""What is told while it goes on: what is being done, how much of it is done, how much there is."""

_AT_ONCE = 200


def drop_unreadable(task: TaskData, settings: VerifierSettings, *, splits: Sequence[str] | None = None) -> TaskData:
    """Return the task without the problems whose gold answer its verifier cannot read, each listed with its row and reason.

    Only golds of the math verifier are tried: the others are refused while the rows are read. Each different gold is parsed once.
    `splits` are those that will be used (default: all).
    """
    problems = [one for name, split in task.splits.items() if splits is None or name in splits for one in split]
    faults = unreadable(problems, settings)
    golds = {problem.id: problem.gold for problem in problems}
    reasons = {id_: f"the answer {shown(golds[id_])} {fault}" for id_, fault in faults.items()}
    return task.without(reasons) if reasons else task


def unreadable(
    problems: Sequence[Problem], settings: VerifierSettings, *, on_progress: Progress | None = None
) -> dict[str, str]:
    """Return the reason for each problem, by its id, whose gold the math verifier cannot read."""
    of_math = [problem for problem in problems if problem.verifier == "math"]
    golds = list(dict.fromkeys(problem.gold for problem in of_math))
    if on_progress and golds:
        on_progress("reading golds", 0, len(golds))
    faults = dict(zip(golds, unreadable_golds(golds, settings), strict=True))
    if on_progress and golds:
        on_progress("reading golds", len(golds), len(golds))
    return {problem.id: fault for problem in of_math if (fault := faults[problem.gold]) is not None}


def judge_golds(
    pairs: Sequence[tuple[Problem, str]],
    settings: VerifierSettings,
    style: AnswerStyle,
    *,
    on_progress: Progress | None = None,
) -> list[Verdict]:
    """Have each problem's own verifier judge an answer to it, given as a model would give it."""
    verifiers = open_verifiers(settings)
    verdicts: list[Verdict] = []
    try:
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            verdicts += verifiers.verify(
                [(problem, _completion(problem, answer, style)) for problem, answer in some], style
            )
            if on_progress:
                on_progress("judging golds", len(verdicts), len(pairs))
    finally:
        verifiers.close()
    return verdicts


def _completion(problem: Problem, answer: str, style: AnswerStyle) -> Completion:
    if problem.verifier == "code":
        text = f"```python\n{answer}\n```"
    else:
        text = rf"\boxed{{{answer}}}" if style == "boxed" else f"<answer>{answer}</answer>"
    return Completion((), (), text, "stop", None, 0)
