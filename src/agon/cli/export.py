"""`agon export`: a run's adapters for other programs, as they are, merged into their base, or as GGUF."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from agon.cli.common import Subcommands, add_json, print_json, printable, tell, text
from agon.export.gguf import TYPES

if TYPE_CHECKING:
    from agon.export.records import Exported, Piece


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "export",
        help="write a run's adapters for other programs",
        description="Write a run's adapters as folders that PEFT and vLLM load without agon, or each merged into a model of its own, or as a "
        "GGUF file.",
    )
    parser.add_argument("subject", type=text, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--adapter",
        type=_adapter,
        choices=("A", "B", "both"),
        help="which (default: both of a pair, in folders of their own, or the one)",
    )
    parser.add_argument(
        "--checkpoint",
        type=int,
        metavar="STEP",
        help="the checkpoint after this step (default: the newest whole one)",
    )
    parser.add_argument("--out", type=text, required=True, metavar="DIR", help="the folder to write, new or empty")
    parser.add_argument(
        "--base",
        type=text,
        metavar="NAME",
        help="what the base is called where the adapter will be used, such as a Hub name",
    )
    _add_merging(parser)
    _add_gguf(parser)
    add_json(parser)
    parser.set_defaults(run=export)


def _add_merging(parser: ArgumentParser) -> None:
    parser.add_argument("--merge", action="store_true", help="write a whole model with the adapter in its weights")
    parser.add_argument(
        "--dtype",
        type=text,
        metavar="TYPE",
        help="number format of merged weights: bf16, f16 or f32 (default: the base's)",
    )
    parser.add_argument(
        "--unchecked",
        action="store_true",
        help="do not compare a merged model's logits with those of base and adapter, which takes both, one after the other, in float32",
    )


def _add_gguf(parser: ArgumentParser) -> None:
    parser.add_argument("--gguf", action="store_true", help="write a GGUF file with llama.cpp's converter")
    parser.add_argument("--gguf-type", choices=TYPES, help=f"its number format (default: {TYPES[0]})")
    parser.add_argument(
        "--gguf-converter",
        type=text,
        metavar="PATH",
        help="convert_hf_to_gguf.py or its folder (default: in the folder LLAMA_CPP names, on PATH, or in ~/llama.cpp and the like)",
    )


def _adapter(value: str) -> str:
    """Read an adapter's name however it is written: `agon eval` has them small."""
    return value.upper() if len(value) == 1 else value.lower()


def export(options: Namespace) -> int:
    """`agon export`."""
    from agon.errors import ConfigError
    from agon.export.records import Wish
    from agon.export.run import export_run

    if options.gguf_type is not None and not options.gguf:
        raise ConfigError("--gguf-type was given without --gguf: add it, or leave both out")
    wish = Wish(
        adapter=options.adapter,
        step=options.checkpoint,
        base=options.base,
        merge=options.merge,
        dtype=options.dtype,
        gguf_type=(options.gguf_type or TYPES[0]) if options.gguf else None,
        gguf_converter=options.gguf_converter,
        is_unchecked=options.unchecked,
    )
    exported = export_run(Path(options.subject), Path(options.out), wish)
    for note in exported.notes:
        tell(note)
    if options.json:
        print_json(exported.to_json())
    else:
        _print(exported)
    return 0


def _print(exported: Exported) -> None:
    from agon.export.say import done_lines

    for piece in exported.pieces:
        print(printable(f"{piece.adapter} -> {exported.out / piece.folder} ({_what(piece, exported)})"))
        for line in done_lines(piece):
            print(printable(f"  {line}"))


def _what(piece: Piece, exported: Exported) -> str:
    kinds = {"adapter": "a PEFT adapter", "merged": "a model", "gguf": "GGUF"}
    return f"{kinds[piece.kind]}, {piece.num_bytes / 1e6:.3g} MB, after {exported.trained.step} steps"
