"""The program of a process that scores reasoning-gym answers: reads one JSON line a pair, writes one JSON line a score.

Started with `python -m agon.verifiers.reasoning_gym_worker`. The families whose scorers are known to evaluate text are left out
(`agon.gym_families`); the process is confined all the same, as far as the system can.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import sys
from typing import Any

from agon.verifiers.sandbox import SandboxError, confine_this_process
from agon.verifiers.worker import limit_resources, reply, set_alarm


def main() -> None:
    """Serve pairs until standard input closes."""
    memory_mb, timeout_s = int(sys.argv[1]), float(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a scorer prints must not be taken for a reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # First of all: a process that has started threads (numpy's) cannot be confined any more.
        _confine(memory_mb)
        from agon.gym_items import family_of

        family_of("gcd", 1, 0)
    except Exception as error:
        reply(replies, {"failed": f"{type(error).__name__}: {error}"})
        return
    reply(replies, {"ready": True})
    for line in sys.stdin:
        set_alarm(timeout_s)
        try:
            outcome, reason = score(json.loads(line))
        except MemoryError:
            outcome, reason = "timeout", f"needs more than {memory_mb} MB"
        except Exception as error:
            outcome, reason = "error", f"{type(error).__name__}: {error}"[:200]
        set_alarm(None)
        reply(replies, {"outcome": outcome, "reason": reason})


def score(message: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome of one answer, and why."""
    from agon.gym_items import family_of, item_of

    details: dict[str, Any] = message["details"]
    where = (str(details["family"]), int(details["size"]), int(details["seed"]))
    item = item_of(*where, int(details["index"]))
    if (str(item["question"]).strip(), str(item["answer"]).strip()) != (message["question"], message["gold"]):
        return "error", "another version of reasoning-gym made this problem"
    try:
        # Some scorers write into the item.
        points = family_of(*where).score_answer(message["answer"], copy.deepcopy(item))
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # no family that is kept does this on common text: what it cannot read is no answer
        return "unparsed", f"the scorer cannot read it ({type(error).__name__})"
    return ("correct", "score 1") if points == 1.0 else ("wrong", f"score {points:.3g}")


def _confine(memory_mb: int) -> None:
    try:
        confine_this_process(memory_mb=memory_mb, is_unsafe_allowed=True)
    except SandboxError:
        limit_resources(memory_mb)


if __name__ == "__main__":
    main()
