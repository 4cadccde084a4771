"""What is in a run folder, and whether two hold the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

SEED = int(os.environ.get("AGON_FAULT_SEED", "7"))
# A step of this takes some hundredths of a second; three checkpoints, the first of them pruned; an alarm in the first steps.
TINY = {
    "adapter.rank": 2,
    "task.max_train": 40,
    "rollout.max_draft_tokens": 44,
    "train.steps": 3,
    "train.problems_per_step": 2,
    "train.group_size": 2,
    "train.save_every": 1,
    "train.keep_checkpoints": 2,
    "train.save_matches_every": 2,
    "evaluation.max_test": 4,
    "evaluation.max_dev": 2,
    "alarms.steps": 1,
    "alarms.truncated_share": 0.01,
    "alarms.low_memory": "off",
    "alarms.dead_group_steps": 1,
    "alarms.dead_group_share": 0.01,
}
TINY_WORDS = [word for name, value in TINY.items() for word in ("--set", f"{name}={value}")]
MATRIX = """
[adapter]
rank = 2
[task]
max_train = 40
wording = "symbols-v1"
[rollout]
max_draft_tokens = 44
max_challenge_tokens = 44
max_summary_tokens = 40
[train]
steps = 3
problems_per_step = 2
group_size = 2
save_every = 1
keep_checkpoints = 2
[evaluation]
max_test = 4
max_dev = 2
[matrix]
seeds = [0, 1]
base = ["single"]
pair = ["cascade-a-b"]
[[matrix.arms]]
name = "agon"
"""
LAST = "step-000003"
# Wall-clock times and process ids differ, and nothing is computed from them.
_OF_THE_MOMENT = ("timings.jsonl", "run.lock", "manifest.json", "report.html")


def content(run: Path, *, of: tuple[str, ...] = ("checkpoints", "matches")) -> dict[str, bytes]:
    """Return what a training left: everything but times and owners, by relative path."""
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file()
        and path.name not in _OF_THE_MOMENT
        and (path.parent == run or path.relative_to(run).parts[0] in of)
    }


def require_same(run: Path, whole: Path) -> None:
    """Check that a run is what the undisturbed one is, byte for byte, with nothing left over."""
    own, other = content(run), content(whole)
    assert own.keys() == other.keys(), f"other files: {sorted(own.keys() ^ other.keys())}"
    differing = [name for name in own if own[name] != other[name]]
    assert not differing, f"other bytes than undisturbed: {differing}"


def damage(path: Path, kind: str, name: str) -> None:
    """Empty a file, cut it, or flip one bit of it. `name` and the seed say where."""
    data, rng = bytearray(path.read_bytes()), random.Random(f"{SEED} {kind} {name}")
    if kind == "flipped":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    else:
        del data[0 if kind == "emptied" else rng.randrange(1, len(data)) :]
    path.write_bytes(data)


def leftovers(folder: Path) -> list[str]:
    """Return what was left half-written below a folder."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob(".*") if ".agon-tmp-" in path.name]
