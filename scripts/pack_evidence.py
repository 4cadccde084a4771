#!/usr/bin/env python3
"""Pack a matrix, or any run folder, into files small enough to be kept in a repository or sent along.

    python scripts/pack_evidence.py FOLDER OUT [--matches] [--adapters]

Without options: settings, numbers of every step, timings, alarms, logs and evaluations, which is all that `agon compare` and
`agon report` read. `--matches` adds the texts of training and evaluations, `--adapters` the adapters of each last checkpoint.
Parts are joined by `cat OUT/evidence.tar.xz.part* | tar -xJf -`.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

ALWAYS = (".json", ".jsonl", ".toml", ".log", ".html")


def chosen(folder: Path, *, matches: bool, adapters: bool) -> Iterator[Path]:
    """Yield the files to pack."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        if "checkpoints" in path.relative_to(folder).parts:
            is_last = path.parent.parent == max(path.parent.parent.parent.iterdir(), default=None)
            if adapters and is_last and path.name in ("adapter_model.safetensors", "adapter_config.json"):
                yield path
        elif path.name.endswith(ALWAYS) or (matches and path.name.endswith(".jsonl.gz")):
            yield path


def pack(folder: Path, out: Path, *, part_bytes: int, matches: bool, adapters: bool) -> list[Path]:
    """Write the archive in parts of at most `part_bytes`, and return their paths."""
    paths = list(chosen(folder, matches=matches, adapters=adapters))
    if not paths:
        raise SystemExit(f"{folder} holds nothing to pack: name a run folder or a matrix")
    packed = io.BytesIO()
    # A low level, for speed.
    with tarfile.open(fileobj=packed, mode="w:xz", preset=2) as archive:
        for path in paths:
            archive.add(path, arcname=path.relative_to(folder.parent))
    out.mkdir(parents=True, exist_ok=True)
    data = packed.getvalue()
    parts: list[Path] = []
    for start in range(0, len(data), part_bytes):
        parts.append(out / f"evidence.tar.xz.part{len(parts):02d}")
        parts[-1].write_bytes(data[start : start + part_bytes])
    return parts


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part-mib", type=float, default=15.5, help="the largest part")
    parser.add_argument("--matches", action="store_true")
    parser.add_argument("--adapters", action="store_true")
    options = parser.parse_args()
    parts = pack(
        options.folder.absolute(),
        options.out,
        part_bytes=int(options.part_mib * 2**20),
        matches=options.matches,
        adapters=options.adapters,
    )
    for part in parts:
        print(f"{part}: {part.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
