from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agon.audit.hardware import Memory
from agon.config import AlarmSettings
from agon.learner.runner import Halving
from agon.methods.registry import method_named
from agon.runs import RunFolder, read_alarms
from agon.train.bell import Bell
from agon.train.memory_watch import MemoryWatch

GOOD = {"draft/tokens_mean": 9.0, "draft/truncated_share": 0.0}


def _watch(*, free: float = 0.5, halving: Halving | None = None, **own) -> MemoryWatch:
    runner: Any = SimpleNamespace(halving=halving)
    look = Memory(total=8 << 30, free=int(free * (8 << 30)))
    return MemoryWatch(runner, AlarmSettings(**own), device=torch.device("cpu"), look=lambda: look)


def test_memory_that_is_nearly_used_up_sounds_and_more_of_it_does_not():
    (alarm,) = _watch(free=0.05).see(3)
    assert (alarm.name, alarm.about, alarm.mode, alarm.step) == ("low-memory", "the machine", "warn", 3)
    assert "409.6 MiB of 8 GiB are free (0.05, limit 0.05): end other programs" in alarm.message
    assert _watch(free=0.051).see(3) == []
    assert _watch(free=0.01, low_memory="off").see(3) == []
    (alarm,) = _watch(free=0.2, low_memory="stop", low_memory_share=0.3).see(3)
    assert (alarm.mode, alarm.setting) == ("stop", "low_memory")


def test_the_memory_of_a_gpu_is_that_at_its_peak(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 30, 100 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60 << 30)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 57 << 30)
    runner: Any = SimpleNamespace(halving=None)
    watch = MemoryWatch(runner, AlarmSettings(), device=torch.device("cuda"), look=lambda: Memory(8, 4))
    # 1 + 60 - 57 of 100 GiB
    (alarm,) = watch.see(0)
    assert (alarm.about, alarm.value) == ("the GPU", pytest.approx(0.04))


def test_a_halving_is_said_once_a_run_and_kept_in_it(tmp_path):
    said: list[str] = []

    def bell():
        memory = _watch(halving=Halving(8192, 3000))
        return Bell(AlarmSettings(), run, method_named("grpo"), say=said.append, memory=memory)

    with RunFolder.create(tmp_path / "run", settings={}) as run:
        first = bell()
        for step in (4, 5):
            assert first.see({"step": step, **GOOD}, [], is_last=False) is None
        resumed = bell()
        resumed.remember([{"step": step, **GOOD} for step in (4, 5)])
        resumed.see({"step": 6, **GOOD}, [], is_last=False)
        assert [(row["name"], row["step"], row["mode"]) for row in read_alarms(run.path)] == [
            ("halved-micro-batch", 4, "warn")
        ]
    (line,) = said
    assert "a micro-batch did not fit the GPU: micro-batches have 3,000 tokens from here on, not 8,192" in line
