"""The program of a checking process: reads one JSON line per pair of answers, writes one JSON line per comparison.

An answer of null asks whether the gold answer can be read. Started with `python -m agon.verifiers.worker`. It gives itself its limits,
says that it is ready once sympy is loaded, and ends when its standard input closes. It has no secrets in its environment, writes no
file, and evaluates no text.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from contextlib import suppress
from typing import Any, TextIO

_ALARM_MARGIN_S = 5


def main() -> None:
    """Serve comparisons until standard input closes."""
    memory_mb, timeout_s = int(sys.argv[1]), float(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not be taken for a reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        limit_resources(memory_mb)
        from agon.verifiers.compare import can_be_read, compare, warm_up
        from agon.verifiers.reading import forbid_evaluation

        warm_up()
        forbid_evaluation()
    except Exception as error:
        shown = f"{type(error).__name__}: {error}".removesuffix(": ")
        too_small = f"it needs more than {memory_mb} MB: raise verifier.memory_mb"
        reply(replies, {"failed": too_small if _is_lack_of_memory(error) else shown})
        return
    reply(replies, {"ready": True})
    for line in sys.stdin:
        gold, answer = json.loads(line)
        set_alarm(timeout_s)
        try:
            outcome, reason = can_be_read(gold) if answer is None else compare(gold, answer)
        except MemoryError:
            outcome, reason = "timeout", f"needs more than {memory_mb} MB"
        except RecursionError:
            outcome, reason = "unparsed", "too deeply nested"
        except Exception as error:
            outcome, reason = "error", f"{type(error).__name__}: {error}"[:200]
        set_alarm(None)
        reply(replies, {"outcome": outcome, "reason": reason})


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether a module could not be loaded for want of memory, which C code and the loader say in ways of their own."""
    is_said = any(words in str(error) for words in ("allocate memory", "failed to map segment"))
    return is_said or isinstance(error, MemoryError | SystemError)


def limit_resources(memory_mb: int) -> None:
    """Limit this process's address space, and forbid it to write files or dump core.

    Raises:
        OSError: the system refuses; a check without its limits must not start. Only Linux enforces the address space.
    """
    try:
        import resource
    except ImportError:  # not a Unix
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    limit = memory_mb * 2**20
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    else:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def set_alarm(timeout_s: float | None) -> None:
    """Have this process end a few seconds after `timeout_s`; None takes that back, since a process that waits does not hang."""
    # The default action of the signal ends the process even in the middle of C code: no hung process outlives a killed parent.
    if hasattr(signal, "alarm"):
        signal.alarm(0 if timeout_s is None else math.ceil(timeout_s) + _ALARM_MARGIN_S)


def reply(replies: TextIO, message: dict[str, Any]) -> None:
    """Write one line of JSON."""
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
