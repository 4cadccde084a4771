"""Freed memory is kept where the C library can be asked to."""

from __future__ import annotations

import resource

import pytest
import torch

from agon.model.memory import keep_freed_memory


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
