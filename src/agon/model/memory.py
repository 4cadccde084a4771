"""Memory that is free, and memory that is freed only to be asked for again."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import NamedTuple

import torch

# From glibc's malloc.h. Setting either turns off the automatic adjustment of both.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory for the next allocation instead of giving it back; tell whether it could be asked.

    glibc returns large blocks to the system, which clears their pages anew at the next use: measured on the embedded base,
    17,000 page faults an update and a third of its time. Where there is no glibc nothing is changed.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    return bool(kept and mallopt(_M_TRIM_THRESHOLD, 1 << 30))


class Peak(NamedTuple):
    """The most bytes this process has held: of main memory since it began, and of the present CUDA device (0 without one)."""

    memory: int
    gpu: int


def peak_bytes() -> Peak:
    """Return the most that this process has held; on a CUDA device since `forget_gpu_peak`."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    in_bytes = most if sys.platform == "darwin" else most * 1024
    return Peak(in_bytes, torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else 0)


def forget_gpu_peak() -> None:
    """Let the peak of the CUDA device begin anew, if one is in use."""
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def free_bytes_at_peak(device: torch.device) -> int:
    """Count the bytes that this process could still have allocated when it held most of a CUDA device."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.max_memory_allocated(device)


def free_bytes(device: torch.device) -> int:
    """Count the bytes that this process can still allocate on a CUDA device, what torch keeps for it included."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
