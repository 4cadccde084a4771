from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agon.audit.hardware import Memory
from agon.errors import ResourceError, RunError
from agon.train import room
from agon.train.budget import Budget
from agon.train.footprint import DiskNeed, MemoryNeed
from agon.train.room import check_room

GIB = 1 << 30
MEMORY = MemoryNeed(base=4 * GIB, engine=0, adapters=GIB, cache=GIB, microbatch=2 * GIB, host=GIB, keeps_cache=False)
BUDGET = Budget(
    method="agon",
    rollouts_per_problem=1,
    rollouts_per_step=1,
    rollouts=1,
    tokens_at_most=1,
    base_parameters=1,
    adapter_parameters=1,
    device="cpu",
    engine="torch",
    memory=MEMORY,
    disk=DiskNeed(checkpoints=3 * 10**9, matches=10**9, lines=0),
)


@pytest.fixture
def look(monkeypatch, tmp_path):
    """Return a function (free memory, free disk, budget) -> what is said."""

    def run(free, disk=10**12, *, swap=0, budget=BUDGET, gpu=0):
        monkeypatch.setattr(room, "memory_bytes", lambda: Memory(64 * GIB, int(free * GIB)))
        monkeypatch.setattr(room, "swap_bytes", lambda: int(swap * GIB))
        monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=disk))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(gpu * GIB), 80 * GIB))
        said: list[str] = []
        check_room(budget, tmp_path / "run", say=said.append)
        return said

    return run


def test_what_fits_is_said_in_a_line(look):
    # 4 + 1 of weights, the larger of 1 and 2, 1 besides
    assert look(20) == ["estimated: 8 GiB of main memory (20 GiB free), 4 GB of disk at most (1 TB free)"]


def test_a_base_that_does_not_fit_with_its_adapters_is_refused(look):
    with pytest.raises(ResourceError, match=r"takes 5 GiB of main memory, but 4\.9 GiB are free: take a smaller base"):
        look(4.9)
    assert len(look(4.9, swap=0.2)) == 2  # slowly, but it fits
    gpu = replace(BUDGET, device="cuda", engine="vllm")
    with pytest.raises(ResourceError, match=r"5 GiB of GPU memory, but 3 GiB are free"):
        look(60, swap=60, budget=gpu, gpu=3)


def test_what_comes_close_is_warned_of(look):
    assert len(look(8.9)) == 1
    (_, warning) = look(8.8)  # 8 is more than 0.9 of it
    assert warning.startswith("warning: memory may not suffice: lower rollout.max_rows, train.tokens_per_microbatch")
    gpu = replace(BUDGET, device="cuda", engine="vllm")
    (line, warning) = look(1.05, budget=gpu, gpu=40)
    assert line.startswith("estimated: 7 GiB of GPU memory (40 GiB free)")
    assert "loading may take 1 GiB of main memory, and 1.05 GiB are free" in warning


def test_checkpoints_without_room_are_refused_and_matches_warned_of(look):
    with pytest.raises(RunError, match=r"2\.9 GB of free disk, but 3 GB are needed"):
        look(20, 2_900_000_000)
    (_, warning) = look(20, 4_400_000_000)
    assert "train.max_matches_gb" in warning
    assert len(look(20, 4_500_000_000)) == 1
