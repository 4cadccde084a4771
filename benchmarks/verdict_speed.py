r"""Math verdicts a second on two worker processes: plain answers, and a mix made from the gold answers of math500.

    python benchmarks/verdict_speed.py [--golds FILE.jsonl.gz] [--repeats 3]

Plain: 4,000 distinct pairs of integers, decimals and plain fractions, half of them equal in another spelling. They never reach a
process. Mix: each distinct gold answer of math500 against four answers, no pair twice: the gold in another spelling (`\dfrac`,
dollars, spaces), the same value in another form (doubled and halved), the gold with one number changed by one, and the next gold of
the file. Rates are given for the whole mix, and for the pairs of it that are no plain numbers and not spelled alike: these alone
need mathematics. Starting the processes is not counted. The best of the repeats counts, each with fresh processes, so that nothing
is remembered.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import re
import time
from pathlib import Path

from agon.config import VerifierSettings
from agon.verifiers.math import MathChecker, check_plainly

GOLDS = Path(os.environ.get("AGON_DATA", "")) / "math500.jsonl.gz"
Pair = tuple[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golds", type=Path, default=GOLDS, help="JSONL (gzip) with a field `answer`")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'pairs':44} {'n':>6} {'verdicts/s':>11}  outcomes")
    show("plain numbers", plain_pairs(), arguments.repeats)
    if not arguments.golds.is_file():
        print(f"no file {arguments.golds}: the mix is left out; name one with --golds, or its folder with AGON_DATA")
        return
    with gzip.open(arguments.golds, "rt", encoding="utf-8") as lines:
        golds = list(dict.fromkeys(str(json.loads(line)["answer"]) for line in lines))
    mix = mixed_pairs(golds)
    show("mix of math500", mix, arguments.repeats)
    show("of these, what needs a process", [pair for pair in mix if check_plainly(*pair) is None], arguments.repeats)


def show(name: str, pairs: list[Pair], repeats: int) -> None:
    assert len(set(pairs)) == len(pairs), "a pair given twice would be counted twice and compared once"
    best, outcomes = float("inf"), dict[str, int]()
    for _ in range(repeats):
        checker = MathChecker(VerifierSettings(workers=2))
        checker.check([("y + 1", f"1 + y + {n} - {n}") for n in range(8)])  # both processes are up
        started = time.perf_counter()
        verdicts = checker.check(pairs)
        best = min(best, time.perf_counter() - started)
        checker.close()
        outcomes = {
            name: sum(verdict.outcome == name for verdict in verdicts) for name in ("correct", "wrong", "unparsed")
        }
        outcomes["other"] = len(pairs) - sum(outcomes.values())
    shown = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count)
    print(f"{name:44} {len(pairs):>6} {len(pairs) / best:>11,.0f}  {shown}")


def plain_pairs() -> list[Pair]:
    pairs: list[Pair] = []
    for n in range(1, 1001):
        pairs += [
            (str(1000 + n), f"{1000 + n:,}"),
            (str(2000 + n), str(2001 + n)),
            (f"{n}/7", rf"\frac{{{n}}}{{7}}"),
            (f"{n}.25", rf"\frac{{{4 * n + 2}}}{{4}}"),
        ]
    return pairs


def mixed_pairs(golds: list[str]) -> list[Pair]:
    pairs: list[Pair] = []
    for index, gold in enumerate(golds):
        spelled = "$ " + gold.replace(r"\frac", r"\dfrac").replace(",", ", ") + " $"
        doubled = rf"\frac{{2 \cdot ({gold})}}{{2}}"
        changed = re.sub(r"\d+", lambda number: str(int(number.group()) + 1), gold, count=1)
        answers = [spelled, doubled, changed, golds[(index + 1) % len(golds)]]
        pairs += [(gold, answer) for answer in answers if answer != gold]
    return list(dict.fromkeys(pairs))


if __name__ == "__main__":
    main()
