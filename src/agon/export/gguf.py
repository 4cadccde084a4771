"""GGUF files through llama.cpp's own converter, where it is installed. agon knows no more of that format than its first bytes."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agon.errors import ConfigError, ModelError

SCRIPT = "convert_hf_to_gguf.py"
VARIABLE = "LLAMA_CPP"
TYPES = ("f16", "bf16", "f32", "q8_0")
"""Number formats that llama.cpp's converter writes, the usual one first; its `llama-quantize` makes smaller ones from these."""
_PLACES = (
    "~/llama.cpp",
    "./llama.cpp",
    "../llama.cpp",
    "/opt/llama.cpp",
    "/usr/local/share/llama.cpp",
    "/usr/share/llama.cpp",
)
_PYTHONS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")
_MAX_REASON = 300


class Converter(NamedTuple):
    """llama.cpp's converter, and how it is called."""

    path: Path
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A converted file, and its number format as llama.cpp names it."""

    name: str
    type: str
    num_tensors: int
    num_bytes: int


def find_converter(asked: str | None, environment: Mapping[str, str] = os.environ) -> Converter:
    """Find llama.cpp's converter: as asked, in the folder that LLAMA_CPP names, on PATH, or where llama.cpp usually lies.

    Raises:
        ConfigError: it is not there.
    """
    named = {"--gguf-converter": asked, VARIABLE: environment.get(VARIABLE)}
    for what, value in named.items():
        if value:
            path = Path(value).expanduser()
            path = path / SCRIPT if path.is_dir() else path
            if not path.is_file():
                raise ConfigError(f"{what} is {value!r}, where there is no {SCRIPT}: give that file or its folder")
            return _called(path)
    on_path = next(filter(None, (shutil.which(name) for name in (SCRIPT, SCRIPT.removesuffix(".py")))), None)
    usual = (Path(place).expanduser() / SCRIPT for place in _PLACES)
    found = Path(on_path) if on_path else next((path for path in usual if path.is_file()), None)
    if found is None:
        raise ConfigError(
            f"--gguf needs llama.cpp's {SCRIPT}, which is not on PATH: get llama.cpp's source and set {VARIABLE} to its folder, or give "
            "--gguf-converter PATH"
        )
    return _called(found)


def convert(converter: Converter, model: Path, target: Path, *, stem: str, file_type: str) -> GgufFile:
    """Convert a model folder into one GGUF file `target/stem-TYPE.gguf`.

    Raises:
        ModelError: the converter failed; the line holds its own last one and the path of its log, which is kept.
    """
    target.mkdir(exist_ok=True)
    # Braces would be the converter's own.
    outfile = target / f"{stem}-{file_type}.gguf"
    command = [*converter.command, str(model), "--outfile", str(outfile), "--outtype", file_type]
    log = _run(converter, command)
    found = sorted(target.glob("*.gguf"))
    if len(found) != 1:
        raise ModelError(f"llama.cpp's converter wrote {len(found)} files instead of one: see {log}")
    num_tensors = _num_tensors(found[0], log)
    log.unlink()
    return GgufFile(found[0].name, file_type, num_tensors, found[0].stat().st_size)


def _run(converter: Converter, command: Sequence[str]) -> Path:
    """Run the converter and return the path of what it said."""
    descriptor, name = tempfile.mkstemp(prefix="agon-gguf-", suffix=".log")
    log = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False)
    except OSError as error:
        log.unlink()
        raise ModelError(f"{converter.path} cannot be run ({error.strerror}): make it executable") from None
    except BaseException:
        log.unlink()
        raise
    if ended.returncode != 0:
        raise ModelError(f"llama.cpp's converter failed ({_reason(log, ended.returncode)}): see {log}{_remedy(log)}")
    return log


def _called(path: Path) -> Converter:
    """A script is run by the Python of llama.cpp's own environment if it has one, else by this one; a program by itself."""
    if path.suffix != ".py":
        return Converter(path, (str(path.absolute()),))
    own = next((path.parent / python for python in _PYTHONS if (path.parent / python).is_file()), None)
    return Converter(path, (str(own.absolute()) if own else sys.executable, str(path.absolute())))


def _lines(log: Path) -> Sequence[str]:
    text = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _reason(log: Path, code: int) -> str:
    lines = _lines(log)
    return lines[-1][:_MAX_REASON] if lines else f"exit status {code}, and it said nothing"


def _remedy(log: Path) -> str:
    last = (_lines(log) or [""])[-1]
    if "pre-tokenizer was not recognized" in last:
        return "; llama.cpp does not know the tokenizer of this base: use --merge without --gguf"
    if "ModuleNotFoundError" in last or "ImportError" in last:
        return "; install what it needs (its requirements.txt) for the Python that runs it"
    return ""


def _num_tensors(path: Path, log: Path) -> int:
    """Read a GGUF file's first bytes: four letters, the format's version, the number of tensors."""
    with path.open("rb") as stream:
        head = stream.read(16)
    magic, _, count = struct.unpack("<4sIQ", head) if len(head) == 16 else (b"", 0, 0)
    if magic != b"GGUF" or count == 0:
        raise ModelError(f"llama.cpp's converter wrote {path.name}, which is no GGUF file with tensors: see {log}")
    return int(count)
