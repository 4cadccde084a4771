"""The base of an export: where it lies, what it is called elsewhere, and its own files beside the weights."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from agon.config import ModelSettings
from agon.errors import ModelError
from agon.model.base import all_stop_ids, generation_stop_ids, load_config, load_tokenizer
from agon.model.locate import find_model_folder

README_COPY = "README.base.md"
_TOKENIZER = (
    *(
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
    ),
    *("merges.txt", "tokenizer.model", "spiece.model", "*.tiktoken", "chat_template.*"),
)
_LICENCE = ("LICENSE*", "LICENCE*", "NOTICE*", "COPYING*", "USE_POLICY*")
_MODEL = ("*.json", "*.txt", "*.model", "*.jinja", "*.py", "*.tiktoken")
# Weights' tables, adapters, and what is written anew.
_NOT_COPIED = (
    "*.index.json",
    "adapter_*",
    "config.json",
    "generation_config.json",
    "agon_export.json",
    "complete.json",
)
_TEMPLATES = "additional_chat_templates"
_HUB_CACHE = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)")
_DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_DTYPE_KEYS = ("dtype", "torch_dtype")


@dataclass(frozen=True, slots=True)
class NamedBase:
    """What a base is called on other machines; `is_known` tells a name that means something there from the name of a local folder."""

    name: str
    revision: str | None
    is_known: bool


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """A base's folder on this machine, its whole configuration (composite if it is one), and its tokenizer."""

    path: Path
    config: Any
    tokenizer: Any

    @property
    def is_composite(self) -> bool:
        """Whether the language model is a part of a larger one."""
        return self.config.get_text_config() is not self.config

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Every token that ended a completion while training."""
        return all_stop_ids(self.config.get_text_config(), self.tokenizer, generation_stop_ids(self.path))


def open_base_folder(settings: ModelSettings, *, local_only: bool) -> BaseFolder:
    """Find the folder of a run's base; `local_only` fetches nothing.

    Raises:
        ModelError: it is not here, or damaged.
    """
    path = find_model_folder(settings.base, settings.revision, local_only=local_only)
    return BaseFolder(path, load_config(path, settings), load_tokenizer(path, settings))


def name_elsewhere(settings: ModelSettings, asked: str | None) -> NamedBase:
    """Say what to call a base where this machine's folders mean nothing: as `asked`, by its Hub name, or else by its folder's name."""
    if asked is not None:
        return NamedBase(asked, None, is_known=True)
    path = Path(settings.base).expanduser()
    if settings.base == "quickstart":
        return NamedBase(settings.base, None, is_known=False)
    if not path.is_dir() and settings.base.count("/") == 1 and not settings.base.startswith((".", "/", "~")):
        return NamedBase(settings.base, settings.revision, is_known=True)
    for part, following in zip(path.parts, (*path.parts[2:], "", ""), strict=False):
        found = _HUB_CACHE.fullmatch(part)
        if found:
            return NamedBase(f"{found['owner']}/{found['name']}", following or None, is_known=True)
    return NamedBase(path.resolve().name, None, is_known=False)


def layer_paths(base: BaseFolder, settings: ModelSettings) -> tuple[str, ...]:
    """Return the paths of the linear layers in the model that `AutoModelForCausalLM` makes of a folder. Nothing is loaded."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(base.config, trust_remote_code=settings.trust_remote_code)
    return tuple(path for path, module in model.named_modules() if isinstance(module, torch.nn.Linear))


def copy_tokenizer(base: BaseFolder, target: Path) -> None:
    """Copy the base's tokenizer, its chat template and its licence."""
    _copy(base.path, target, (*_TOKENIZER, *_LICENCE))


def copy_model_files(base: BaseFolder, target: Path) -> None:
    """Copy every file of the base that loading it may need, but for weights and configurations; its README.md as README.base.md."""
    _copy(base.path, target, (*_MODEL, *_LICENCE))
    if (base.path / "README.md").is_file():
        shutil.copyfile(base.path / "README.md", target / README_COPY)


def write_config(base: BaseFolder, target: Path, *, dtype: torch.dtype | None, unties_head: bool) -> None:
    """Write config.json as the base has it, but for the number format of the weights and an output layer with a weight of its own."""
    tree = _read_json(base.path / "config.json")
    if dtype is not None:
        _set_dtype(tree, _DTYPES[dtype])
        if not any(key in tree for key in _DTYPE_KEYS):
            tree["dtype"] = _DTYPES[dtype]
    if Path(str(tree.get("_name_or_path", ""))).is_absolute():
        # A folder of the machine where the base was saved.
        del tree["_name_or_path"]
    if unties_head:
        tree["tie_word_embeddings"] = False
    _write_json(target / "config.json", tree)


def write_generation_config(base: BaseFolder, target: Path) -> tuple[int, ...]:
    """Write generation_config.json so that text ends where it ended in training; return the end tokens that the base's own lacked."""
    path = base.path / "generation_config.json"
    own = generation_stop_ids(base.path) or all_stop_ids(base.config.get_text_config(), None, ())
    lacking = tuple(token for token in base.stop_ids if token not in own)
    if lacking:
        tree = _read_json(path) if path.is_file() else {}
        _write_json(target / path.name, {**tree, "eos_token_id": [*own, *lacking]})
    elif path.is_file():
        shutil.copyfile(path, target / path.name)
    return lacking


def licence_of(folder: Path) -> str | None:
    """Return what the base's folder says of its licence: the entry of its model card, or the name of its licence file."""
    try:
        card = (folder / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        card = ""
    head = card.split("---", 2)[1] if card.startswith("---") and card.count("---") > 1 else ""
    found = re.search(r"^license:\s*(\S.*)$", head, re.MULTILINE)
    if found:
        return found[1].strip().strip("\"'")
    return next((path.name for path in _matching(folder, _LICENCE)), None)


def _copy(source: Path, target: Path, patterns: Sequence[str]) -> None:
    for path in _matching(source, patterns):
        shutil.copyfile(path, target / path.name)
    if (source / _TEMPLATES).is_dir():
        (target / _TEMPLATES).mkdir()
        for path in _matching(source / _TEMPLATES, ("*.jinja",)):
            shutil.copyfile(path, target / _TEMPLATES / path.name)


def _matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not any(path.match(pattern) for pattern in _NOT_COPIED))


def _set_dtype(tree: dict[str, Any], name: str) -> None:
    for key, value in tree.items():
        if isinstance(value, dict):
            _set_dtype(value, name)
        elif key in _DTYPE_KEYS and value in _DTYPES.values():
            tree[key] = name


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}): get the model again") from None
    if not isinstance(tree, dict):
        raise ModelError(f"{path} holds no object: get the model again")
    return tree


def _write_json(path: Path, tree: dict[str, Any]) -> None:
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
