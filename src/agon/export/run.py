"""`agon export`: from a run to folders that other programs load, whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from agon.errors import RunError
from agon.export.base import licence_of
from agon.export.card import Card, card_text
from agon.export.check import Expected, compare_merged, expected_logits
from agon.export.folders import DTYPES, write_adapter, write_merged
from agon.export.gguf import convert
from agon.export.plan import Merging, Plan, check_wish, plan_export
from agon.export.records import Exported, Piece, Wish
from agon.export.say import COMPOSITE, done_lines, notes_of
from agon.export.trained import read_trained
from agon.runs.atomic import atomic_directory
from agon.runs.parent import default_run, require_empty
from agon.runs.space import require_writable

SUMMARY_FILE = "agon_export.json"
CARD_FILE = "README.md"
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def export_run(run: Path, out: Path, wish: Wish) -> Exported:
    """Write adapters of a run, or models with one merged in, into the new folder `out`: one adapter there, several in folders by their names.

    Raises:
        ConfigError: the wish makes no sense for this run, or the converter is missing.
        RunError: no run, no such checkpoint, `out` holds something, or the place cannot be written to.
        ModelError: base or adapter cannot be used, or what was written is not what base and adapter are.
    """
    check_wish(wish)
    trained = read_trained(default_run(run), which=wish.adapter, step=wish.step)
    _require_new(out)
    plan = plan_export(trained, wish, out)
    with atomic_directory(out.resolve(), has_marker=False) as folder:
        pieces = _write_pieces(plan, folder)
        if len(pieces) > 1:
            _write_card(plan, folder, name=None)
        is_composite = plan.base is not None and plan.base.is_composite
        notes = (*plan.notes, *notes_of(trained, plan.named, pieces, is_composite=is_composite))
        exported = Exported(out, trained, plan.named, tuple(pieces), notes)
        summary = {key: value for key, value in exported.to_json().items() if key != "out"}
        _write_text(folder / SUMMARY_FILE, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    return exported


def _require_new(out: Path) -> None:
    require_empty(out, is_of_run=False)
    require_writable(out)
    # What takes its place in the end is another folder: whoever is in the old one would see nothing of it.
    if out.is_dir() and (out.samefile(Path.cwd()) or out.is_mount()):
        raise RunError(f"output folder {out} is the working directory or a mount: give a new folder inside it")


def _write_pieces(plan: Plan, folder: Path) -> list[Piece]:
    names = list(plan.trained.adapters)
    places = {name: "." if len(names) == 1 else name for name in names}
    for place in places.values():
        (folder / place).mkdir(exist_ok=True)
    merging = plan.merging
    if merging is None:
        return [_write_adapter(plan, folder, name=name, place=place) for name, place in places.items()]
    expected = None if plan.wish.is_unchecked else expected_logits(plan.trained, merging.plans, merging.prompt)
    return [
        _write_model(plan, merging, folder, name=name, place=place, expected=expected) for name, place in places.items()
    ]


def _write_adapter(plan: Plan, folder: Path, *, name: str, place: str) -> Piece:
    trained = plan.trained
    write_adapter(
        folder / place,
        trained.adapters[name],
        identity=trained.identity,
        named=plan.named,
        base=plan.base,
        settings=trained.settings.model,
    )
    lines = [COMPOSITE] if plan.base is not None and plan.base.is_composite else []
    _write_card(plan, folder / place, name=name, lines=lines)
    # An adapter is written as it is stored: rounded, where it was rounded when it was packed.
    dtype = _NAMES[next(iter(trained.adapters[name].tensors.values())).dtype]
    return Piece(name, place, "adapter", _num_bytes(folder / place), dtype=dtype)


def _write_model(
    plan: Plan, merging: Merging, folder: Path, *, name: str, place: str, expected: Expected | None
) -> Piece:
    wish, target = plan.wish, folder / place
    model = target if wish.merge else target / ".model"
    # Of a file alone, what counts is what is left when the converter has rounded; agon cannot tell for its own formats.
    measured = None if wish.merge else DTYPES.get(wish.gguf_type or "")
    merged = write_merged(model, merging.plans[name], merging.base, dtype=merging.dtype, measured=measured)
    dtype = merging.dtype or merging.plans[name].base_dtype
    check = None if expected is None else compare_merged(model, name, expected, trained=plan.trained, dtype=dtype)
    gguf = None
    if plan.converter is not None and wish.gguf_type is not None:
        gguf = convert(plan.converter, model, target, stem=_stem(plan, name), file_type=wish.gguf_type)
    if not wish.merge:
        shutil.rmtree(model)
    piece = Piece(
        name,
        place,
        wish.kind,
        _num_bytes(target),
        dtype=_NAMES[dtype] if gguf is None or wish.merge else gguf.type,
        rounding=merged.rounding if wish.merge or measured is not None else None,
        check=check,
        added_stop_ids=merged.added_stop_ids,
        gguf=gguf,
    )
    _write_card(plan, target, name=name, lines=done_lines(piece), file=gguf and gguf.name)
    return piece


def _write_card(
    plan: Plan, target: Path, *, name: str | None, lines: Sequence[str] = (), file: str | None = None
) -> None:
    card = Card(
        trained=plan.trained,
        base=plan.named,
        kind=plan.wish.kind,
        name=name,
        prompts=plan.prompts,
        licence=None if plan.base is None else licence_of(plan.base.path),
        lines=lines,
        file=file,
    )
    _write_text(target / CARD_FILE, card_text(card))


def _stem(plan: Plan, name: str) -> str:
    """Name a GGUF file by base and adapter; braces would be the converter's own."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "_", plan.named.name.rpartition("/")[2]) or "base"
    return f"{base}-agon-{name}"


def _num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _write_text(path: Path, text: str) -> None:
    # Half of a surrogate pair can stand in a setting, but not in strict UTF-8.
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
