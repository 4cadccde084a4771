"""What `agon export` is asked for, and what it has written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import agon
from agon.export.base import NamedBase
from agon.export.card import Kind
from agon.export.check import Compared
from agon.export.gguf import GgufFile
from agon.export.trained import Trained
from agon.model.merge import Rounding


@dataclass(frozen=True, slots=True)
class Wish:
    """What to export. `adapter` is A, B or both (None: all that the run deploys), `step` a checkpoint's (None: the newest whole one).

    `base` is what the base is called elsewhere. `dtype` (bf16, f16, f32; None: the base's own) is that of merged weights. `gguf_type` asks for
    a GGUF file, by the converter at `gguf_converter` or one that is found. `is_unchecked` leaves the comparison of logits out.
    """

    adapter: str | None = None
    step: int | None = None
    base: str | None = None
    merge: bool = False
    dtype: str | None = None
    gguf_type: str | None = None
    gguf_converter: str | None = None
    is_unchecked: bool = False

    @property
    def kind(self) -> Kind:
        """What is written in the end."""
        return "merged" if self.merge else "gguf" if self.gguf_type is not None else "adapter"


@dataclass(frozen=True, slots=True)
class Piece:
    """One exported adapter. `folder` is its place within what was exported (`.` if it is alone); what does not apply is None.

    `added_stop_ids` are end tokens that the base's generation_config.json lacked; `num_bytes` counts all files but cards.
    """

    adapter: str
    folder: str
    kind: Kind
    num_bytes: int
    dtype: str | None = None
    rounding: Rounding | None = None
    check: Compared | None = None
    added_stop_ids: tuple[int, ...] = ()
    gguf: GgufFile | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written into `out`, and what there is to say about it."""

    out: Path
    trained: Trained
    base: NamedBase
    pieces: tuple[Piece, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what `agon export --json` prints, and, without `out`, what agon_export.json beside the weights holds."""
        trained = self.trained
        return {
            "out": str(self.out),
            "agon": agon.__version__,
            "method": trained.method.name,
            "deployed_as": trained.protocol,
            "seed": trained.settings.train.seed,
            "step": trained.step,
            "is_finished": trained.is_finished,
            "base": {
                "name": self.base.name,
                "revision": self.base.revision,
                "is_known": self.base.is_known,
                "sha256": trained.identity.sha256,
            },
            "adapters": [self._piece(piece) for piece in self.pieces],
            "notes": list(self.notes),
        }

    def _piece(self, piece: Piece) -> Mapping[str, Any]:
        return {
            **asdict(piece),
            "optimiser_steps": self.trained.adapters[piece.adapter].version,
            "roles": list(self.trained.roles(piece.adapter)),
        }
