r"""Decide whether a mathematical answer equals the gold answer.

Plain numbers and answers written like the gold one are decided here, exactly and at once; everything else is compared by
math-verify in processes that can be killed (`pool`, `worker`, `compare`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agon.config import VerifierSettings
from agon.numerals import read_number, same_number
from agon.records import Verdict
from agon.verifiers.pool import WorkerPool, module_command
from agon.verifiers.processes import LazyPool, verdict_on_answer
from agon.verifiers.spelling import MAX_CHARS, is_same_text, is_words
from agon.verifiers.units import have_other_units

_MAX_REMEMBERED = 50_000
_SURE = ("correct", "wrong", "unparsed")

Pair = tuple[str, str]


class MathChecker:
    """Checks (gold, answer) pairs. Safe from any thread; starts its processes with the first pair that needs them."""

    def __init__(self, settings: VerifierSettings) -> None:
        self._pool = LazyPool(lambda: open_math_pool(settings))
        self._remembered: dict[Pair, Verdict] = {}
        self._lock = threading.Lock()

    def check(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Return one verdict for each (gold, answer), in order. The same pair is compared once."""
        verdicts: dict[Pair, Verdict] = {}
        for pair in dict.fromkeys(pairs):
            verdict = self._remembered.get(pair) or check_plainly(*pair)
            if verdict is not None:
                verdicts[pair] = verdict
        rest = [pair for pair in dict.fromkeys(pairs) if pair not in verdicts]
        if rest:
            replies = self._pool.get().ask(rest)
            verdicts |= {
                (gold, answer): verdict_on_answer(reply, answer, gold)
                for (gold, answer), reply in zip(rest, replies, strict=True)
            }
            self._remember({pair: verdicts[pair] for pair in rest if verdicts[pair].outcome in _SURE})
        return [verdicts[pair] for pair in pairs]

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()

    def _remember(self, verdicts: dict[Pair, Verdict]) -> None:
        # A time-out is not remembered: on a busy machine the same pair may do better next time.
        with self._lock:
            if len(self._remembered) + len(verdicts) > _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered.update(verdicts)


def open_math_pool(settings: VerifierSettings) -> WorkerPool:
    """Open the processes that compare: each message is a gold and an answer, or a gold and None to ask if it can be read."""
    command = module_command("agon.verifiers.worker", settings.memory_mb, settings.timeout_s)
    return WorkerPool(command, timeout_s=settings.timeout_s, workers=settings.workers)


def check_plainly(gold: str, answer: str) -> Verdict | None:
    """Decide without a worker process where that can be done exactly: equal texts, words, two plain numbers, a text too long."""
    if len(answer) > MAX_CHARS:
        reason = f"the answer has {len(answer)} characters; more than {MAX_CHARS} are not read"
        return Verdict("unparsed", 0.0, reason, answer[:MAX_CHARS], gold)
    if len(gold) > MAX_CHARS:
        reason = f"the gold answer has {len(gold)} characters; more than {MAX_CHARS} are not read"
        return Verdict("error", 0.0, reason, answer, gold[:MAX_CHARS])
    if is_same_text(gold, answer):
        return Verdict("correct", 1.0, "same text", answer, gold)
    if is_words(gold):
        return Verdict("wrong", 0.0, "other words", answer, gold)
    if have_other_units(gold, answer):
        return Verdict("wrong", 0.0, "another unit", answer, gold)
    first, second = read_number(gold), read_number(answer)
    if first is None or second is None:
        return None
    if same_number(first, second):
        return Verdict("correct", 1.0, "equal numbers", answer, gold)
    return Verdict("wrong", 0.0, "other number", answer, gold)
