"""What there is to say about an export: lines for its card, and notes for whoever made it."""

from __future__ import annotations

from collections.abc import Sequence

from agon.export.base import NamedBase
from agon.export.records import Piece
from agon.export.trained import Trained

# Share of the update's size that rounding may take before it is worth a warning.
_MUCH_LOST = 0.1
COMPOSITE = (
    "the base is composite, and the adapter's layers are named as transformers' AutoModelForCausalLM names them: other loaders may look for "
    "other names and find nothing without a word; --merge has no such names"
)
"""To be said of an adapter whose base is more than a language model."""


def done_lines(piece: Piece) -> list[str]:
    """Say what was done to a merged model and what was measured of it."""
    if piece.kind == "adapter":
        return []
    lines = [_rounded(piece), _compared(piece)]
    if piece.added_stop_ids:
        ids = ", ".join(map(str, piece.added_stop_ids))
        lines.append(f"generation_config.json ends a text at the tokens {ids} as well, as training did")
    if piece.gguf is not None:
        lines.append(
            f"{piece.gguf.name} was written by llama.cpp's converter with {piece.gguf.num_tensors} tensors; agon read no more of it than its "
            "first bytes"
        )
    return lines


def _rounded(piece: Piece) -> str:
    rounding = piece.rounding
    if rounding is None:
        return f"W0 + s·B·A added up in float32; what rounding to {piece.dtype} took of the update was not measured"
    return (
        f"W0 + s·B·A added up in float32 and rounded once to {piece.dtype}: {rounding.changed_share:.3f} of the {rounding.num_weights} adapted "
        f"weights differ from the base's; rounding took {rounding.lost:.2g} of the update's size"
    )


def _compared(piece: Piece) -> str:
    when = "before the conversion, " if piece.kind == "gguf" else ""
    check = piece.check
    if check is None:
        return "logits were not compared with those of base and adapter"
    return (
        f"{when}over {check.num_tokens} tokens, its logits differ from those of base and adapter in float32 by {check.error:.2g} of their size "
        f"(the adapter changes the base's by {check.effect:.2g}); the likeliest next token is the same after {check.same_choice:.3f} of "
        "the tokens"
    )


def notes_of(trained: Trained, base: NamedBase, pieces: Sequence[Piece], *, is_composite: bool) -> list[str]:
    """Say what whoever exports has to know: what the export stands for, and what it lacks."""
    notes = [_half(trained)] if trained.method.has_pair and len(pieces) == 1 else []
    if not trained.is_finished:
        notes.append(f"the run had taken {trained.step} of {trained.settings.train.steps} steps and had not ended")
    if any(piece.kind == "adapter" for piece in pieces):
        notes += [] if base.is_known else [_nameless(base)]
        notes += [COMPOSITE] if is_composite else []
    for piece in pieces:
        notes += _lost(piece)
        if piece.check is None and piece.kind != "adapter":
            notes.append(f"{piece.adapter}: its logits were not compared with those of base and adapter")
    return notes


def _half(trained: Trained) -> str:
    (name,) = trained.adapters
    other = next(adapter for adapter in trained.method.adapters if adapter != name)
    return f"{name} is one half of a pair that was trained to be deployed together: export {other} as well"


def _nameless(base: NamedBase) -> str:
    if base.name == "quickstart":
        return "the embedded base is nowhere but in agon: --merge writes a model that needs no base"
    return f"the adapter names its base {base.name!r}, after its folder here: --base NAME says where others find it"


def _lost(piece: Piece) -> list[str]:
    rounding = piece.rounding
    if rounding is None:
        return (
            []
            if piece.kind == "adapter"
            else [f"what rounding to {piece.dtype} takes of {piece.adapter}'s update was not measured"]
        )
    if rounding.is_zero:
        return [f"{piece.adapter} changes nothing: its update is zero, and the merged model is the base"]
    if rounding.lost <= _MUCH_LOST:
        return []
    option = "--dtype f32" if piece.kind == "merged" else "--gguf-type f32"
    return [
        f"rounding to {piece.dtype} took {rounding.lost:.2g} of {piece.adapter}'s update (its size; {1 - rounding.changed_share:.0%} of the "
        f"adapted weights are as before): {option} keeps it all, and so does the adapter without --merge"
    ]
