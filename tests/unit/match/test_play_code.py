"""A match over a code problem with everything real but the engine: prompts, withholding, sandbox, verdicts, files."""

from __future__ import annotations

import sys

import pytest

from agon.config import VerifierSettings
from agon.match.lineups import lineup_for
from agon.match.play import Sampling, play
from agon.match.session import Session
from agon.prompts.builder import PromptBuilder
from agon.prompts.withhold import WITHHELD
from agon.rollout.scripted import ScriptedEngine
from agon.runs.matches import read_matches, write_matches
from agon.tasks.programs import program_problem
from agon.verifiers.registry import open_verifiers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs run on Linux only")

ROW = {
    "prompt": "Write a function to double a number.",
    "code": "def double(x):\n    return 2 * x",
    "test_list": ["assert double(1) == 2", "assert double(3) == 6"],
}
WRONG = "<think>hm</think>One is doubled by adding one.\n```python\ndef double(x):\n    return x + one_more(x)\ndef one_more(x): return 1\n```"
RIGHT = (
    "<think>one is not enough</think>Doubling is adding the number.\n```python\ndef double(x):\n    return x + x\n```"
)
SAMPLING = Sampling(max_draft_tokens=400, max_challenge_tokens=400, max_summary_tokens=200)


class Tokenizer:
    """One token a character, without a chat template."""

    eos_token_id = 0
    bos_token_id = None
    all_special_tokens = ()
    chat_template = None

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False):
        return {"input_ids": self.encode(text), "offset_mapping": [(i, i + 1) for i in range(len(text))]}

    def encode(self, text, add_special_tokens=True):
        return [ord(character) for character in text]

    def decode(self, token_ids, skip_special_tokens=False):
        return "".join(chr(number) for number in token_ids if number)


def test_a_code_problem_is_drafted_withheld_challenged_judged_and_stored(tmp_path):
    tokenizer = Tokenizer()
    engine = ScriptedEngine(lambda prompt, request: RIGHT if "rival" in prompt else WRONG, tokenizer)
    settings = VerifierSettings(workers=1, unsafe_code_execution=True)
    prompts = PromptBuilder(tokenizer, wording="plain-v1", style="code")
    problem = program_problem(ROW, task="mbpp")
    with Session(engine, prompts, open_verifiers(settings), "code", tokenizer) as session:
        ((match,),) = play(
            session, [problem], lineup_for("cascade"), samples=1, sampling=SAMPLING, seed=0, stream=("test",)
        )
    assert "```python" in match.draft.prompt.text
    assert "assert double(3)" not in match.draft.prompt.text
    assert (match.draft.verdict.outcome, match.draft.verdict.reason) == ("wrong", "test 2 of 2: expected 6, got 4")
    assert match.summaries[0].text == f"One is doubled by adding one.\n{WITHHELD}"
    assert "one_more" not in match.final.prompt.text
    assert match.final.is_correct
    assert [attempt.format_score for attempt in match.attempts] == [1.0, 1.0]
    file = tmp_path / "matches.jsonl.gz"
    write_matches(file, [match])
    assert list(read_matches(file)) == [match]
