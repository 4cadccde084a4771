"""Freed memory is kept where the C library can be asked to, and the most that was held is known."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch

from agon.model.memory import keep_freed_memory, peak_bytes


def test_memory_freed_is_used_again_without_page_faults():
    if not keep_freed_memory():
        pytest.skip("no glibc here")
    torch.ones(4 << 20).add_(1)  # the first use may fault

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    before = faults()
    for _ in range(10):
        torch.ones(4 << 20).add_(1)
    # Given back to the system, 16 MiB would fault 4,096 times at each of ten uses; a system that is short of memory may take a page.
    assert faults() - before < 3 * 4096


def test_the_peak_is_in_bytes():
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here")
    (resident,) = [int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS:")]
    # The system counts in KiB: one that was taken for bytes, or multiplied twice, is a thousand times off.
    assert 0.9 < peak_bytes().memory / (resident * 1024) < 100
