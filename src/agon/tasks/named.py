"""The data sets that have a name: where they are on the Hub, what their columns are called, which program checks their answers."""

from __future__ import annotations

from dataclasses import dataclass

QUESTION_COLUMNS = ("question", "problem", "prompt", "question_concat", "query", "input")
ANSWER_COLUMNS = ("answer", "final_answer", "gold", "Answer", "solution", "target")
LEVEL_COLUMNS = ("level", "difficulty")


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A public data set. Columns are tried in order; a local file may use any of them."""

    hub: str
    verifier: str
    config: str | None = None
    train_split: str | None = "train"
    test_split: str | None = None
    question_columns: tuple[str, ...] = QUESTION_COLUMNS
    answer_columns: tuple[str, ...] = ANSWER_COLUMNS


NAMED: dict[str, NamedTask] = {
    "gsm8k": NamedTask("openai/gsm8k", "numeric", config="main", test_split="test"),
    "math": NamedTask("DigitalLearningGmbH/MATH-lighteval", "math", config="default", test_split="test"),
    # 500 problems of MATH's test split: for evaluation, never for training.
    "math500": NamedTask("HuggingFaceH4/MATH-500", "math", train_split=None, test_split="test"),
    "deepmath": NamedTask("zwhe99/DeepMath-103K", "math"),
    # its column Question is only the last sentence; question_concat is the whole problem.
    "svamp": NamedTask(
        "ChilleD/SVAMP",
        "numeric",
        test_split="test",
        question_columns=("question_concat", "question", "problem"),
        answer_columns=("Answer", "answer"),
    ),
    # 164 functions, for evaluation.
    "humaneval": NamedTask("openai/openai_humaneval", "code", train_split=None, test_split="test"),
    # the 427 rows whose text and tests were checked by hand; `task.hub` with the configuration `full` reads all 974.
    "mbpp": NamedTask("google-research-datasets/mbpp", "code", config="sanitized", test_split="test"),
    "code_contests": NamedTask("deepmind/code_contests", "code", test_split="test"),
}
