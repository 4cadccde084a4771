r"""Every bar on math verdicts, measured on files of public answers with labels, as one table.

    python benchmarks/verdict_bars.py [--data FOLDER] [--json]

Files: verifier_pairs, math_model_completions, gsm8k_model_solutions (JSON lines, gzip; fields gold, equal, and pred or completion).
Of the pairs, whole outputs are read leniently, as `agon verify --pairs` reads them (docs/verdicts.md). math-verify alone is measured
beside it: its own `parse` and `verify` on the texts as they are (put between dollars where they have no delimiter of their own), in
processes that are killed after 10 s; its rows tagged hang or security are left out of its counts, since it fails on them by design.
Exit status 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from agon.answers import extract_answer
from agon.config import VerifierSettings
from agon.records import Completion, Problem
from agon.verifiers.foreign import stated_answer
from agon.verifiers.math import MathChecker, open_math_pool
from agon.verifiers.pool import WorkerPool
from agon.verifiers.registry import open_verifiers

LIMIT_S = 5.0
ALONE = r"""
import json, logging, os, resource, sys
logging.disable(logging.CRITICAL)
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from math_verify import parse, verify
def delimited(text):
    return text if any(mark in text for mark in ("$", "boxed", "\\(", "\\[")) else f"${text}$"
print(json.dumps({"ready": True}), file=replies, flush=True)
for line in sys.stdin:
    gold, answer = (parse(delimited(text), parsing_timeout=None) for text in json.loads(line))
    outcome = "correct" if verify(gold, answer, timeout_seconds=None) else "wrong"
    print(json.dumps({"outcome": outcome, "reason": ""}), file=replies, flush=True)
"""
Row = dict[str, Any]


class Bar(NamedTuple):
    name: str
    found: str
    bar: str
    is_met: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("AGON_DATA"), help="default: AGON_DATA")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.data is None or not (arguments.data / "verifier_pairs.jsonl.gz").is_file():
        sys.exit(f"no verifier_pairs.jsonl.gz in {arguments.data}: name the folder with --data or AGON_DATA")
    bars = [
        *bars_of_pairs(read(arguments.data, "verifier_pairs"), arguments.json),
        *bars_of_completions(arguments.data),
        neighbours(),
    ]
    if arguments.json:
        print(json.dumps([bar._asdict() for bar in bars], indent=1))
    else:
        print(f"{'bar':58} {'found':>24}  {'wanted':28} met")
        for bar in bars:
            print(f"{bar.name:58} {bar.found:>24}  {bar.bar:28} {'yes' if bar.is_met else 'NO'}")
    sys.exit(not all(bar.is_met for bar in bars))


def read(folder: Path, stem: str) -> list[Row]:
    with gzip.open(folder / f"{stem}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def bars_of_pairs(rows: list[Row], is_quiet: bool) -> list[Bar]:
    pairs = [(gold_of(row), answer_of(row)) for row in rows]
    pool = open_math_pool(VerifierSettings(timeout_s=LIMIT_S))
    slowest = max(reply.seconds for reply in pool.ask(pairs))
    pool.close()
    checker = MathChecker(VerifierSettings(timeout_s=LIMIT_S))
    verdicts = checker.check(pairs)
    checker.close()
    ours = [verdict.is_correct for verdict in verdicts]
    alone = math_verify_alone(rows)
    if not is_quiet:
        for row, is_correct, verdict in zip(rows, ours, verdicts, strict=True):
            if row["tier"] == "core" and is_correct != row["equal"]:
                print(f"core {row['id']} {'false positive' if is_correct else 'false negative'}: {verdict.reason}")
    bars: list[Bar] = []
    for tier in ("core", "hard", "ambiguous"):
        found, other = counted(rows, ours, tier), counted(rows, alone, tier)
        beside = f"math-verify alone: {other[0]} FP, {other[1]} FN"
        is_met = {"core": found[0] <= 2 and found[1] <= 18, "hard": found[0] == 0 and found[1] < other[1]}.get(
            tier, True
        )
        wanted = {"core": "at most 2 FP, 18 FN", "hard": f"0 FP, FN below {other[1]}"}.get(tier, "decided, not counted")
        total = sum(row["tier"] == tier for row in rows)
        bars.append(Bar(f"{tier}, {total} pairs ({beside})", f"{found[0]} FP, {found[1]} FN", wanted, is_met))
    errors = sum(verdict.outcome == "error" for verdict in verdicts)
    bars.append(Bar("checker errors on the pairs", str(errors), "0", errors == 0))
    bars.append(Bar("slowest pair", f"{slowest:.2f} s", f"limit {LIMIT_S:g} s plus 1 s", slowest <= LIMIT_S + 1))
    return bars


def gold_of(row: Row) -> str:
    stated = stated_answer(row["gold"]) if len(row["gold"]) > 200 else None
    return extract_answer(row["gold"], "boxed") or stated or row["gold"]


def answer_of(row: Row) -> str:
    text = row["pred"]
    if row["kind"] == "completion":
        return stated_answer(text) or ""
    return extract_answer(text, "boxed" if "boxed" in text else "tags") or text


def counted(rows: list[Row], judged: list[bool], tier: str) -> tuple[int, int]:
    pairs = [(is_correct, row["equal"]) for row, is_correct in zip(rows, judged, strict=True) if row["tier"] == tier]
    return pairs.count((True, False)), pairs.count((False, True))


def math_verify_alone(rows: list[Row]) -> list[bool]:
    fair = [row for row in rows if not {"hang", "security"} & set(row["tags"])]
    pool = WorkerPool([sys.executable, "-c", ALONE], timeout_s=10.0, workers=2)
    replies = iter(pool.ask([(row["gold"], row["pred"]) for row in fair]))
    judged = [next(replies).outcome == "correct" if row in fair else bool(row["equal"]) for row in rows]
    pool.close()
    return judged


def bars_of_completions(folder: Path) -> list[Bar]:
    math = [row for row in read(folder, "math_model_completions") if not row.get("label_suspect")]
    # these models write "A: 26" where the prompt of today asks for a box
    words = read(folder, "gsm8k_model_solutions")
    parts = [row["completion"].rpartition("A:") for row in words]
    texts = [rf"{before} \boxed{{{answer.strip()}}}" if mark else answer for before, mark, answer in parts]
    return [
        agreement("math_model_completions", math, [row["completion"] for row in math], "math"),
        agreement("gsm8k_model_solutions", words, texts, "numeric"),
    ]


def agreement(name: str, rows: list[Row], texts: list[str], verifier: str) -> Bar:
    verifiers = open_verifiers(VerifierSettings(timeout_s=LIMIT_S))
    pairs = [
        (Problem("id", "q", row["gold"], "t", verifier), Completion((1,), (0.0,), text, "stop", None, 0))
        for row, text in zip(rows, texts, strict=True)
    ]
    verdicts = verifiers.verify(pairs, "boxed")
    verifiers.close()
    agreeing = sum(verdict.is_correct == row["equal"] for row, verdict in zip(rows, verdicts, strict=True))
    return Bar(
        f"{name}, labels agreed with", f"{agreeing} of {len(rows)}", "at least 99.5 %", agreeing >= 0.995 * len(rows)
    )


def neighbours() -> Bar:
    checker = MathChecker(VerifierSettings(timeout_s=2.0))
    checker.check([("y + 1", "1 + y"), ("y + 2", "2 + y")])
    hang = r"|9^{9^{9^9}} - 5|"
    started = time.perf_counter()
    verdicts = checker.check([("12", hang), *[(rf"\sqrt{{{n}}}", f"{n}^{{1/2}}") for n in range(101, 116)]])
    seconds = time.perf_counter() - started
    checker.close()
    good = sum(verdict.is_correct for verdict in verdicts[1:])
    is_met = good == 15 and verdicts[0].outcome == "timeout" and seconds <= 3.0
    return Bar(
        "good neighbours of a hanging answer (limit 2 s)",
        f"{good} of 15 in {seconds:.1f} s",
        "15, within limit plus 1 s",
        is_met,
    )


if __name__ == "__main__":
    main()
