"""What a computation depends on besides its program: the same settings give the same numbers, bit for bit, where this is the same."""

from __future__ import annotations

import torch


def machine_of(device: torch.device) -> dict[str, str]:
    """Describe where a model computes: device, instructions of the CPU, threads that share a sum, CUDA's version."""
    is_gpu = device.type == "cuda"
    found = {
        "device": torch.cuda.get_device_name(device) if is_gpu else device.type,
        "cpu": str(torch.backends.cpu.get_cpu_capability()),
        "threads": str(torch.get_num_threads()),
    }
    return found | {"cuda": str(torch.version.cuda)} if is_gpu else found
