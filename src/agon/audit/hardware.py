"""Cores, memory, disk and GPUs, as far as this process may use them."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agon.audit.findings import Finding, readable

GROUP = "machine"
_PROBE_TIMEOUT_S = 60.0
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
_GIB = 2**30
_LOW_MEMORY = 2 * _GIB
_LOW_DISK = 5 * _GIB

# Run in a process of its own: a driver that hangs or a broken installation must not take the report with it.
_PROBE = """
import json
found = {"gpus": []}
import torch
found["version"] = torch.__version__
found["built_for"] = torch.version.cuda and "CUDA " + torch.version.cuda or torch.version.hip and "ROCm " + torch.version.hip
found["mps"] = bool(torch.backends.mps.is_available())
try:
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            of = torch.cuda.get_device_properties(i)
            free, total = torch.cuda.mem_get_info(i)
            found["gpus"].append({"name": of.name, "capability": f"{of.major}.{of.minor}", "free": free, "total": total})
except Exception as error:
    found["gpu_error"] = f"{type(error).__name__}: {error}"
try:
    from torch.nn.attention.varlen import varlen_attn
    found["varlen"] = True
except ImportError:
    found["varlen"] = False
found["flash"] = ""
if any(gpu["capability"].startswith("9.") for gpu in found["gpus"]):
    try:
        from agon.learner.flash import find_kernels
        found["flash"] = "here" if find_kernels() else "lacking"
    except Exception:
        found["flash"] = "lacking"
print("\\n" + json.dumps(found))
"""


def look_at_machine(folder: Path) -> list[Finding]:
    """Look at Python, cores, memory and the disk that holds `folder`."""
    return [
        Finding(GROUP, "Python", "ok", f"{platform.python_version()} on {platform.platform()}"),
        Finding(GROUP, "cores", "ok", _cores()),
        _memory(),
        _disk(folder),
    ]


class Memory(NamedTuple):
    """Bytes of memory that this process may use in all, and those that are available."""

    total: int
    free: int


def memory_bytes() -> Memory:
    """Return what the system has, or a container around this process allows if that is less. Cached files count as available."""
    total, free = _system_memory()
    for group in _memory_cgroups():
        limit = _number(group, "memory.max")
        if limit is not None:
            used = (_number(group, "memory.current") or 0) - _cached_files(group)
            total, free = min(total, limit), min(free, limit - max(used, 0))
    return Memory(total, free)


def swap_bytes() -> int:
    """Return the bytes of swap space that are free."""
    return _meminfo().get("SwapFree", 0)


class TorchProbe:
    """Imports torch in another process, so that other looks can be taken meanwhile."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-c", _PROBE)) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def result(self) -> dict[str, Any] | str:
        """Return what torch said of itself and its GPUs, or why it could not."""
        try:
            out, err = self._process.communicate(timeout=_PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return f"importing it took longer than {_PROBE_TIMEOUT_S:g} s"
        if self._process.returncode != 0:
            last = (err.strip().splitlines() or [f"exit status {self._process.returncode}"])[-1]
            return f"importing it failed: {last}"
        return json.loads(out.strip().splitlines()[-1])


def look_at_gpus(probe: dict[str, Any] | str) -> list[Finding]:
    """Say which GPUs torch can use, and why it cannot use one that is there."""
    if isinstance(probe, str):
        return [Finding(GROUP, "torch", "broken", probe, "install agon again into a fresh environment")]
    built_for = probe["built_for"] or "CPU only"
    findings = [Finding(GROUP, "torch", "ok", f"{probe['version']} ({built_for})")]
    for number, gpu in enumerate(probe["gpus"]):
        detail = (
            f"{gpu['name']}, {readable(gpu['free'])} free of {readable(gpu['total'])}, capability {gpu['capability']}"
        )
        findings.append(Finding(GROUP, f"GPU {number}", "ok", detail))
    if not probe["gpus"]:
        findings.append(_no_gpu(probe))
    findings.append(_packed_attention(probe))
    return findings


def _packed_attention(probe: dict[str, Any]) -> Finding:
    name = "packed attention"
    if not probe["gpus"]:
        return Finding(GROUP, name, "ok", "padded blocks")
    if probe["flash"] == "here":
        return Finding(GROUP, name, "ok", "FlashAttention 4, as vLLM carries it")
    if not probe["varlen"]:
        return Finding(GROUP, name, "missing", "padded blocks", "a newer torch packs faster on this GPU")
    lacks = "; vLLM with nvidia-cutlass-dsl[cu13] has a faster one" if probe["flash"] else ""
    return Finding(GROUP, name, "ok", f"torch's variable-length kernel{lacks}")


def _no_gpu(probe: dict[str, Any]) -> Finding:
    if probe["mps"]:
        return Finding(GROUP, "GPU", "ok", "Apple GPU (MPS)")
    driver = next((place for place in ("/dev/nvidia0", "/dev/kfd") if Path(place).exists()), None)
    if driver is None:
        return Finding(GROUP, "GPU", "missing", "none is seen", "the CPU does for the quickstart and small bases")
    if not probe["built_for"]:
        return Finding(
            GROUP, "GPU", "broken", f"{driver} is there, but torch is built for CPU only", "install torch for CUDA"
        )
    said = probe.get("gpu_error", f"{driver} is there, but torch cannot use it")
    return Finding(
        GROUP, "GPU", "broken", said, f"install a driver that fits {probe['built_for']}, or set CUDA_VISIBLE_DEVICES"
    )


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup("cpu.max").split()
    limit = f", limited to {int(quota[0]) / int(quota[1]):.3g} by the container" if _is_number(quota) else ""
    return f"{usable}{limit}"


def _memory() -> Finding:
    total, free = memory_bytes()
    detail = f"{readable(free)} free of {readable(total)}"
    if free < _LOW_MEMORY:
        return Finding(
            GROUP, "memory", "missing", detail, "2 GiB are needed even for the quickstart: end other programs"
        )
    return Finding(GROUP, "memory", "ok", detail)


def _system_memory() -> tuple[int, int]:
    """Total and available bytes; where the system does not say what is available, all of it."""
    known = _meminfo()
    if "MemTotal" in known and "MemAvailable" in known:
        return known["MemTotal"], known["MemAvailable"]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return total, total


def _meminfo() -> dict[str, int]:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line)
        return {name: int(value.split()[0]) * 1024 for name, value in lines.items() if value.split()}
    except (OSError, ValueError):
        return {}


def _memory_cgroups() -> list[Path]:
    """List the control group of this process and those around it; the root stands for what a container sees of its own."""
    try:
        lines = _OWN_CGROUP.read_text().splitlines()
    except OSError:
        lines = []
    path = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "/")
    own = _CGROUP / path.lstrip("/")
    return [place for place in (own, *own.parents) if place == _CGROUP or _CGROUP in place.parents]


def _number(group: Path, name: str) -> int | None:
    """A number that a control group states; None where there is none, or no limit."""
    text = _read(group / name)
    return int(text) if text.isdigit() else None


def _cached_files(group: Path) -> int:
    """Bytes of a control group that the system takes back when they are needed."""
    lines = (line.split() for line in _read(group / "memory.stat").splitlines())
    return next((int(words[1]) for words in lines if words[:1] == ["inactive_file"] and words[1:]), 0)


def _disk(folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    detail = f"{readable(usage.free)} free of {readable(usage.total)} where {folder.absolute()} is"
    if not os.access(folder, os.W_OK):
        return Finding(
            GROUP, "disk", "missing", f"{folder.absolute()} may not be written to", "give --out another folder"
        )
    if usage.free < _LOW_DISK:
        return Finding(GROUP, "disk", "missing", detail, "free some space, or give --out another disk")
    return Finding(GROUP, "disk", "ok", detail)


def _cgroup(name: str) -> str:
    """What this container is limited to; blank where there is no container that says so."""
    return _read(_CGROUP / name)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _is_number(quota: list[str]) -> bool:
    return len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit()
