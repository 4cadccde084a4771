"""The program of a checking process for code: reads one job a line, writes one finding a line.

Started with `python -m agon.verifiers.code_worker`. It is the judge, and runs nothing but our own code: programs run in the sandbox
that it owns, test code in a confined process that it forks. A job holds a program and the tests of its problem; where the sandbox cannot
be had, every job is answered so.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

from agon.program_tests import from_details
from agon.verifiers.judge import Finding, judge
from agon.verifiers.sandbox import Limits, Sandbox, SandboxError, confine_this_process
from agon.verifiers.sandbox.linux import die_with_parent, is_supported
from agon.verifiers.tester import Tester
from agon.verifiers.worker import reply

# Outcomes of a reply that are not a verdict's own. The pool's `timeout` says that this process did not answer in time.
NO_SANDBOX, LIMIT = "no sandbox", "limit"


def main() -> None:
    """Serve jobs until standard input closes, or the process that started this one is gone: a program must not run on without it."""
    if is_supported():
        die_with_parent()
    limits = Limits(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    memory_mb, is_unsafe_allowed = int(sys.argv[4]), sys.argv[5] == "unsafe"
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what test code prints must not be taken for a reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError):
        import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport] - many tests use it: the test process is forked with it
    sandbox = Sandbox(is_unsafe_allowed=is_unsafe_allowed)
    tester = Tester(lambda: confine_this_process(memory_mb=memory_mb, is_unsafe_allowed=is_unsafe_allowed))
    refusal = ""
    try:
        tester.start()
        sandbox.start()
    except SandboxError as error:
        refusal = str(error)
    reply(replies, {"ready": True})
    for line in sys.stdin:
        if refusal:
            reply(replies, {"outcome": NO_SANDBOX, "reason": refusal})
            continue
        finding = _answer(json.loads(line), sandbox, tester, limits)
        outcome = LIMIT if finding.outcome == "timeout" else finding.outcome
        reply(replies, {"outcome": outcome, "reason": finding.reason})
    tester.close()
    sandbox.close()


def _answer(job: dict[str, Any], sandbox: Sandbox, tester: Tester, limits: Limits) -> Finding:
    try:
        return judge(job["program"], from_details(job["tests"]), sandbox, tester, limits)
    except Exception as error:  # whatever fails here is our own fault, and becomes a counted outcome
        return Finding("error", f"{type(error).__name__}: {error}"[:300])


if __name__ == "__main__":
    main()
