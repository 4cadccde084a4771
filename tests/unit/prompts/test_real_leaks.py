"""How often the withheld answer can still be read, on public model outputs. Without the files these tests are skipped."""

import gzip
import json
import os
from pathlib import Path

import pytest

from agon.prompts.withhold import WITHHELD, is_readable, withhold_answer, without_withheld

SHARED = Path(os.environ.get("AGON_DATA", "no folder is named"))
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="AGON_DATA names no folder")


@pytest.mark.parametrize(
    ("stem", "highest"),
    # measured: .19 and .11. What is left are numbers of the question and steps on the way that equal the answer.
    [("math_model_completions", 0.22), ("gsm8k_model_solutions", 0.13)],
)
def test_withheld_answers_are_seldom_readable(stem, highest):
    with gzip.open(SHARED / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["completion"] for line in lines][:600]
    withheld = [withhold_answer(text, "boxed") for text in texts]
    answered = [(text, result) for text, result in zip(texts, withheld, strict=True) if result.answer]
    assert len(answered) > 0.98 * len(texts)
    leaks = sum(is_readable(result.text, result.answer) for _, result in answered)
    assert leaks / len(answered) <= highest
    assert all(is_readable(text, result.answer) for text, result in answered)


@pytest.mark.parametrize(
    ("stem", "most_empty", "least_kept"),
    # measured on these: no text is left empty of 396, .012 of 600; .89 and .69 of the characters are kept.
    [("math_model_completions", 0.0, 0.85), ("gsm8k_model_solutions", 0.02, 0.65)],
)
def test_dropped_answers_are_no_easier_to_read_and_most_of_a_draft_stays(stem, most_empty, least_kept):
    with gzip.open(SHARED / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["completion"] for line in lines][:600]
    marked = [withhold_answer(text, "boxed") for text in texts]
    left = [without_withheld(result.text) for result in marked]
    for result, shown in zip(marked, left, strict=True):
        assert WITHHELD not in shown
        assert is_readable(result.text, result.answer) or not is_readable(shown, result.answer)
        assert (shown.count("\\[") == shown.count("\\]")) or result.text.count("\\[") != result.text.count("\\]")
    assert sum(not shown.strip() for shown in left) / len(left) <= most_empty
    assert sum(map(len, left)) / sum(map(len, texts)) >= least_kept
