#!/usr/bin/env python3
"""Pack a matrix, or any run folder, into files small enough to be kept in a repository or sent along.

    python scripts/pack_evidence.py FOLDER OUT [--matches] [--adapters [--bfloat16]]

Without options: settings, numbers of every step, timings, alarms, logs and evaluations, which is all that `agon compare` and
`agon report` read. `--matches` adds the texts of training and evaluations. `--adapters` adds each run's last whole checkpoint without
the optimiser's moments, a third of its size: it can be measured, served and exported, and a matrix goes on measuring with
`agon ablate --resume`, but training cannot go on from it.
Parts are joined by `cat OUT/evidence.tar.xz.part* | tar -xJf -`.
"""

from __future__ import annotations

import argparse
import io
import math
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ARCHIVE = "evidence.tar.xz"
ALWAYS = (".json", ".jsonl", ".toml", ".log", ".html")
# Of a checkpoint's files: what training alone needs.
MOMENTS = "optimizer-"
# Files that make a folder a run or a matrix, as agon.runs has them: without --adapters agon need not be installed.
RUN, MATRIX = "manifest.json", "matrix.json"


def holds_checkpoints(path: Path) -> bool:
    """Tell whether a folder is that of a run's checkpoints. Others may have the same name."""
    return path.name == "checkpoints" and ((path.parent / RUN).is_file() or any(path.glob("step-[0-9]*/complete.json")))


def is_in_checkpoints(path: Path, folder: Path) -> bool:
    """Tell whether something below `folder` lies in a run's checkpoints."""
    places = [folder / own for own in path.relative_to(folder).parents]
    return any(holds_checkpoints(place) for place in places[:-1])


def require_folder_of_runs(folder: Path) -> None:
    """Refuse a part of a run's checkpoints: its run is what can be measured."""
    for place in (folder, *folder.parents):
        if (place / RUN).is_file() or (place / MATRIX).is_file():
            return
        if holds_checkpoints(place):
            raise SystemExit(f"{folder} is a part of a run: name the run folder, {place.parent}")


def chosen(folder: Path, *, matches: bool) -> Iterator[Path]:
    """Yield the files to pack as they are."""
    endings = (*ALWAYS, ".jsonl.gz") if matches else ALWAYS
    for path in sorted(folder.rglob("*")):
        is_wanted = path.name.endswith(endings)
        if is_in_checkpoints(path, folder):
            continue
        if not path.is_symlink():
            if is_wanted and path.is_file():
                yield path
        # `pack_checkpoints` follows a run's own. A link that leads nowhere may be to a disk that is not there.
        elif (is_wanted or path.is_dir() or not path.exists()) and not holds_checkpoints(path):
            target = path.readlink()
            print(
                f"warning: {path} is a link to {target}: nothing of it is packed; put {target} itself there",
                file=sys.stderr,
            )


def pack_checkpoints(folder: Path, scratch: Path, *, bfloat16: bool) -> Iterator[Path]:
    """Write each run's last whole checkpoint without its moments into `scratch`, under the path it has in `folder`; yield the files."""
    from agon.errors import RunError
    from agon.runs.checkpoints import newest_checkpoint

    # A run's checkpoints may be a link to another disk.
    found = [
        path for name in ("checkpoints", RUN) for path in folder.rglob(name) if not is_in_checkpoints(path, folder)
    ]
    runs = sorted({path.parent for path in found if path.name == RUN or holds_checkpoints(path)})
    if not runs:
        print(f"warning: {folder} holds no run: no adapters are packed", file=sys.stderr)
    for run in runs:
        try:
            newest = newest_checkpoint(run)
            for damage in newest.damage:
                print(f"warning: {run}: {damage}, and is not packed", file=sys.stderr)
            if newest.path is None:
                print(f"warning: {run} has no whole checkpoint: its adapters are not packed", file=sys.stderr)
                continue
            target = scratch / newest.path.relative_to(folder)
            pack_checkpoint(newest.path, target, bfloat16=bfloat16)
        except RunError as error:
            raise SystemExit(str(error)) from None
        yield from sorted(path for path in target.rglob("*") if path.is_file())


def pack_checkpoint(source: Path, target: Path, *, bfloat16: bool) -> None:
    """Write a whole checkpoint without its moments, with a marker of its own that says what it was packed from."""
    from agon.runs.atomic import MARKER, atomic_directory, sha256_of
    from agon.runs.checkpoints import PACKED_FROM, ROUNDED_TO, read_marker

    marker = read_marker(source)
    names = [name for name in marker.pop("files") if not name.startswith(MOMENTS)]
    # What was packed before keeps naming the first it was packed from.
    says = {PACKED_FROM: sha256_of(source / MARKER), **marker, **({ROUNDED_TO: "bfloat16"} if bfloat16 else {})}
    with atomic_directory(target, says=says) as folder:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if bfloat16 and name.endswith(".safetensors"):
                round_tensors(source / name, folder / name)
            else:
                shutil.copyfile(source / name, folder / name)


def round_tensors(source: Path, target: Path) -> None:
    """Write a safetensors file with its numbers rounded to bfloat16, and what it says of itself."""
    import torch
    from safetensors import safe_open

    from agon.model.storage import write_tensors

    with safe_open(source, framework="pt") as file:
        tensors = {name: file.get_tensor(name).to(torch.bfloat16) for name in file.keys()}  # noqa: SIM118 - a handle
        write_tensors(target, tensors, metadata=file.metadata())


def pack(
    folder: Path, out: Path, *, part_bytes: int, matches: bool = False, adapters: bool = False, bfloat16: bool = False
) -> list[Path]:
    """Write the archive in parts of at most `part_bytes`, which replace those that are there, and return their paths."""
    # The last name of the path is that of the archive's folder.
    folder = folder.resolve() if folder.name == ".." else folder.absolute()
    require_folder_of_runs(folder)
    blocking = next((place for place in (out, *out.parents) if place.exists() and not place.is_dir()), None)
    if blocking is not None:
        raise SystemExit(f"{blocking} is a file: name a folder for OUT")
    packed = io.BytesIO()
    with TemporaryDirectory() as scratch:
        files = {path.relative_to(folder): path for path in chosen(folder, matches=matches)}
        if adapters:
            written = pack_checkpoints(folder, Path(scratch), bfloat16=bfloat16)
            files |= {path.relative_to(scratch): path for path in written}
        if not files:
            raise SystemExit(f"{folder} holds nothing to pack: name a run folder or a matrix")
        # A low level, for speed.
        with tarfile.open(fileobj=packed, mode="w:xz", preset=2) as archive:
            for name, path in sorted(files.items()):
                archive.add(path, arcname=folder.name / name)
    out.mkdir(parents=True, exist_ok=True)
    data = packed.getvalue()
    starts = range(0, len(data), part_bytes)
    # Equally many digits, for `cat` takes part100 before part11.
    num_digits = max(2, len(str(len(starts) - 1)))
    names = [f"{ARCHIVE}.part{number:0{num_digits}}" for number in range(len(starts))]
    with TemporaryDirectory(dir=out, prefix=".parts-") as written:
        for name, start in zip(names, starts, strict=True):
            (Path(written) / name).write_bytes(data[start : start + part_bytes])
        # Parts of an earlier archive would be joined to this one. They stay until this one is written.
        for old in out.glob(f"{ARCHIVE}.part*"):
            old.unlink()
        return [(Path(written) / name).rename(out / name) for name in names]


def part_size(value: str) -> int:
    """Return a size in MiB as bytes."""
    try:
        size = float(value) * 2**20
    except ValueError:
        size = math.nan
    if not (math.isfinite(size) and size >= 1):
        raise argparse.ArgumentTypeError(f"{value!r} is no size of a part in MiB: write a number above 0, such as 15.5")
    return int(size)


def main() -> None:
    """Read the command line."""
    # The description says how it is used, and an error stays one line.
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part-mib", type=part_size, default="15.5", help="the largest part (default: 15.5)")
    parser.add_argument("--matches", action="store_true", help="take the texts along")
    parser.add_argument(
        "--adapters",
        action="store_true",
        help="take the adapters of each last whole checkpoint along, as they were saved (needs agon installed)",
    )
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="round the adapters to bfloat16, half their size; vLLM takes those that it holds side by side (multi-lora) in the base's format "
        "anyway, but where they are merged into the weights (swapped), computed with in float32 or trained on, the rounding is a change: what "
        "is measured from them is of the rounded adapters, and says so",
    )
    options = parser.parse_args()
    if options.bfloat16 and not options.adapters:
        parser.error("--bfloat16 rounds what --adapters packs: add --adapters, or leave it out")
    try:
        parts = pack(
            options.folder,
            options.out,
            part_bytes=options.part_mib,
            matches=options.matches,
            adapters=options.adapters,
            bfloat16=options.bfloat16,
        )
    except OSError as error:
        raise SystemExit(f"cannot pack: {error.filename}: {error.strerror}; mend that, then pack again") from None
    for part in parts:
        print(f"{part}: {part.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
