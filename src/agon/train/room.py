"""Is there room for a run, on the device, in main memory and on the disk? Asked before its base is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from agon.audit.findings import readable
from agon.audit.hardware import memory_bytes, swap_bytes
from agon.errors import ResourceError
from agon.runs.space import free_disk_bytes, readable_size, require_free_bytes
from agon.train.budget import Budget

# An estimate that takes more of what is free may be too low to fit.
_CLOSE = 0.9
_SMALLER = "take a smaller base, lower adapter.rank, or end other programs"
_LOWER = {
    "torch": "rollout.max_rows, train.tokens_per_microbatch",
    "vllm": "rollout.engine_memory_share, train.tokens_per_microbatch",
}


def check_room(budget: Budget, out: Path, *, say: Callable[[str], None]) -> None:
    """Say in a line what a run takes and what there is, warn where that is close, and refuse what cannot be.

    Refused is a run whose base, adapters and optimisers alone are more than there is, or whose checkpoints are: no other setting
    could help.

    Raises:
        ResourceError: not enough memory.
        RunError: not enough disk.
    """
    memory, is_gpu = budget.memory, budget.device == "cuda"
    in_main = memory_bytes().free
    free = torch.cuda.mem_get_info()[0] if is_gpu else in_main
    where = "GPU" if is_gpu else "main"
    needed = memory.peak if is_gpu else memory.peak + memory.host
    at_most = free if is_gpu else free + swap_bytes()
    if memory.least > at_most:
        raise ResourceError(
            f"the base with its adapters and optimisers takes {readable(memory.least)} of {where} memory, but {readable(at_most)} are free: "
            f"{_SMALLER}"
        )
    require_free_bytes(out, budget.disk.checkpoints)
    disk = free_disk_bytes(out)
    say(
        f"estimated: {readable(needed)} of {where} memory ({readable(free)} free), {readable_size(budget.disk.total)} of disk at most "
        f"({readable_size(disk)} free)"
    )
    # vLLM takes no larger cache than there is room for, and neither does a learner that may choose its micro-batches.
    if needed > _CLOSE * free:
        say(f"warning: memory may not suffice: lower {_LOWER[budget.engine]} or the caps of rollout if it does not")
    if is_gpu and memory.host > _CLOSE * in_main:
        say(
            f"warning: loading may take {readable(memory.host)} of main memory, and {readable(in_main)} are free: end other "
            "programs if it fails"
        )
    if budget.disk.total > _CLOSE * disk:
        say(
            "warning: the disk may not suffice for all matches: raise train.save_matches_every, lower train.max_matches_gb, or free some "
            "space"
        )
