"""Verdicts on public answers with labels. The files are not part of the project: without them these tests are skipped."""

import gzip
import json
from pathlib import Path

import pytest

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.records import Completion, Problem
from agon.verifiers.math import MathChecker
from agon.verifiers.registry import open_verifiers

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the development data is not here")


def read(stem):
    with gzip.open(SHARED / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def agreement(rows, texts, verifier):
    verifiers = open_verifiers(VerifierSettings(workers=1))
    try:
        pairs = [
            (Problem("id", "q", row["gold"], "t", verifier), Completion((1,), (0.0,), text, "stop", None, 0))
            for row, text in zip(rows, texts, strict=True)
        ]
        verdicts = verifiers.verify(pairs, "boxed")
    finally:
        verifiers.close()
    return sum(verdict.is_correct == row["equal"] for row, verdict in zip(rows, verdicts, strict=True)) / len(rows)


def test_verdicts_agree_with_the_labels_of_whole_math_completions():
    rows = read("math_model_completions")
    assert agreement(rows, [row["completion"] for row in rows], "math") >= 0.995


def test_verdicts_agree_with_the_labels_of_gsm8k_solutions():
    rows = read("gsm8k_model_solutions")
    # these models write "A: 26" where the prompt of today asks for a box
    parts = [row["completion"].rpartition("A:") for row in rows]
    texts = [rf"{before} \boxed{{{answer.strip()}}}" if mark else answer for before, mark, answer in parts]
    assert agreement(rows, texts, "numeric") >= 0.995


@pytest.mark.slow
def test_verdicts_agree_with_the_labels_of_answer_pairs():
    rows = [row for row in read("verifier_pairs") if row["tier"] == "core" and row["kind"] == "answer"]
    checker = MathChecker(VerifierSettings())
    try:
        golds = [extract_answer(row["gold"], "boxed") or row["gold"] for row in rows]
        answers = [extract_answer(row["pred"], "boxed" if "boxed" in row["pred"] else "tags") for row in rows]
        given = [answer or row["pred"] for row, answer in zip(rows, answers, strict=True)]
        verdicts = checker.check(list(zip(golds, given, strict=True)))
    finally:
        checker.close()
    outcomes = [(verdict.is_correct, row["equal"]) for row, verdict in zip(rows, verdicts, strict=True)]
    assert not [verdict.reason for verdict in verdicts if verdict.outcome == "error"]
    assert outcomes.count((True, False)) <= 2
    assert outcomes.count((False, True)) <= 18
