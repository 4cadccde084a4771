from __future__ import annotations

import shutil
import sys
from collections import namedtuple

from agon.audit import hardware
from agon.audit.findings import readable
from agon.audit.hardware import TorchProbe, look_at_gpus, look_at_machine

Usage = namedtuple("Usage", "total used free")
CPU = {"version": "2.13.0", "built_for": None, "mps": False, "varlen": False, "flash": "", "gpus": []}


def by_name(findings):
    return {finding.name: finding for finding in findings}


def test_bytes_are_told_in_powers_of_1024():
    assert [readable(n) for n in (0, 1023, 1024, 1.5 * 2**30, 2**40)] == ["0 B", "1023 B", "1 KiB", "1.5 GiB", "1 TiB"]


def test_the_limits_of_a_container_count(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(hardware, "_system_memory", lambda: (64 * 2**30, 32 * 2**30))
    assert by_name(look_at_machine(tmp_path))["memory"].detail == "32 GiB free of 64 GiB"
    (tmp_path / "memory.max").write_text(f"{8 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{7 * 2**30}\n")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    found = by_name(look_at_machine(tmp_path))
    assert found["memory"].detail == "1 GiB free of 8 GiB"
    assert (found["memory"].state, "2 GiB" in found["memory"].remedy) == ("missing", True)
    assert found["cores"].detail.endswith("limited to 1.5 by the container")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    found = by_name(look_at_machine(tmp_path))
    assert found["memory"].detail == "32 GiB free of 64 GiB"
    assert found["cores"].detail.isdigit()


def test_of_nested_limits_the_one_with_least_room_counts_and_cached_files_are_room(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(hardware, "_system_memory", lambda: (64 * 2**30, 32 * 2**30))
    (tmp_path / "own").write_text("4:memory:/v1\n0::/outer/inner\n")
    monkeypatch.setattr(hardware, "_OWN_CGROUP", tmp_path / "own")
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text(f"{8 * 2**30}\n")
    (inner.parent / "memory.current").write_text(f"{7 * 2**30}\n")
    assert hardware.memory_bytes() == (8 * 2**30, 2**30)
    (inner.parent / "memory.stat").write_text(f"anon 5\ninactive_file {3 * 2**30}\n")
    assert hardware.memory_bytes() == (8 * 2**30, 4 * 2**30)


def test_a_full_disk_is_told_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(100 * 2**30, 99 * 2**30, 2**30))
    disk = by_name(look_at_machine(tmp_path))["disk"]
    assert disk.state == "missing"
    assert "1 GiB free of 100 GiB" in disk.detail
    assert "--out" in disk.remedy


def test_torch_says_of_itself_what_it_is():
    from importlib import metadata

    found = TorchProbe().result()
    assert found["version"].split("+")[0] == metadata.version("torch").split("+")[0]
    assert isinstance(found["gpus"], list)


def test_a_torch_that_fails_or_hangs_is_broken_with_its_last_words(monkeypatch):
    failed = TorchProbe([sys.executable, "-c", "raise ImportError('libcudart is gone')"]).result()
    assert "libcudart is gone" in failed
    assert look_at_gpus(failed)[0].state == "broken"
    monkeypatch.setattr(hardware, "_PROBE_TIMEOUT_S", 0.2)
    assert "longer than 0.2 s" in TorchProbe([sys.executable, "-c", "import time; time.sleep(60)"]).result()


def test_gpus_are_named_with_their_memory():
    gpu = {"name": "NVIDIA H", "capability": "9.0", "free": 3 * 2**30, "total": 4 * 2**30}
    found = by_name(look_at_gpus(CPU | {"built_for": "CUDA 13.0", "varlen": True, "gpus": [gpu]}))
    assert found["GPU 0"].detail == "NVIDIA H, 3 GiB free of 4 GiB, capability 9.0"
    assert found["packed attention"] == ("machine", "packed attention", "ok", "torch's variable-length kernel", "")
    for flash, told in (("here", "FlashAttention 4"), ("lacking", "nvidia-cutlass-dsl[cu13] has a faster one")):
        hopper = CPU | {"built_for": "CUDA 13.0", "varlen": True, "gpus": [gpu], "flash": flash}
        assert told in by_name(look_at_gpus(hopper))["packed attention"].detail
    old = by_name(look_at_gpus(CPU | {"built_for": "CUDA 12.6", "gpus": [gpu]}))["packed attention"]
    assert (old.state, old.detail) == ("missing", "padded blocks")


def test_a_gpu_that_torch_cannot_use_is_told_from_none(monkeypatch):
    monkeypatch.setattr(hardware.Path, "exists", lambda path: False)
    assert by_name(look_at_gpus(CPU))["GPU"].detail == "none is seen"
    monkeypatch.setattr(hardware.Path, "exists", lambda path: str(path) == "/dev/nvidia0")
    assert "torch is built for CPU only" in by_name(look_at_gpus(CPU))["GPU"].detail
    told = by_name(look_at_gpus(CPU | {"built_for": "CUDA 13.0", "gpu_error": "driver too old"}))["GPU"]
    assert (told.state, told.detail) == ("broken", "driver too old")
    assert "CUDA 13.0" in told.remedy
