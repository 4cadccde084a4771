"""Finding a base model's folder: the embedded one, a local one, or a Hub model's local copy."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from agon.errors import ModelError

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.py", "LICENSE*", "NOTICE*", "README.md"]


def find_model_folder(base: str, revision: str | None = None, *, local_only: bool = False) -> Path:
    """Return the local folder of a base model, fetching a Hub model first where there is a network, unless `local_only`.

    Raises:
        ModelError: nothing usable is there; the message says what would help.
    """
    if base == "quickstart":
        return _embedded_folder()
    path = Path(base).expanduser()
    if path.is_dir():
        return _checked(path, base)
    if path.is_file():
        raise ModelError(f"model.base {base!r} is a file: give the folder that holds config.json and *.safetensors")
    if base.startswith(("/", ".", "~")) or base.count("/") > 1:
        raise ModelError(f"model.base {base!r} does not exist: give an existing model folder, a Hub name or quickstart")
    return _checked(_fetch(base, revision, local_only), base)


def weight_files(folder: Path) -> list[Path]:
    """Return the files of weights that transformers reads, in its order: others may lie beside them, with the same weights under other
    names.

    An index may name any file, a pickled one or one of another folder among them, and transformers would read it: only safetensors files of
    the folder itself are taken.

    Raises:
        ModelError: there are none, or the index is damaged or names something else.
    """
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    index = folder / INDEX_FILE
    if not index.is_file():
        raise ModelError(f"{folder} has neither {WEIGHTS_FILE} nor {INDEX_FILE}: get the model again, or give another")
    try:
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        names = sorted(str(name) for name in named)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"{index} cannot be used ({error}): get the model again") from None
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(
                f"{index} names {name!r}, which is no safetensors file of its folder (pickled weights are not read): convert the model, or give "
                "another"
            )
    return [folder / name for name in names]


def _embedded_folder() -> Path:
    path = Path(str(resources.files("agon"))) / "assets" / "quickstart-base"
    if not (path / "config.json").is_file():
        raise ModelError("the embedded base is not part of this installation: install agon-rl again, or set model.base")
    return path


def _fetch(base: str, revision: str | None, local_only: bool) -> Path:
    try:
        return Path(
            snapshot_download(base, revision=revision, allow_patterns=_WANTED, local_files_only=local_only),
        )
    except GatedRepoError:
        raise ModelError(
            f"Hub model {base!r} is gated: accept its licence on its page, then log in with `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise ModelError(f"Hub model {base!r} has no revision {revision!r}: give a commit or tag that exists") from None
    except RepositoryNotFoundError:
        raise ModelError(
            f"{base!r} is neither a local folder nor a public Hub model: check the name, or log in with `hf auth login`"
        ) from None
    except HFValidationError:
        raise ModelError(f"model.base {base!r} is neither a local folder nor a possible Hub name") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
        raise ModelError(
            f"{base!r} is no local folder, and the Hub cannot be reached: connect to a network once, or give a local folder"
        ) from None


def _checked(folder: Path, base: str) -> Path:
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file():
        raise ModelError(f"model.base {base!r} is an adapter, not a base model: give the model it was trained on")
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"model.base {base!r} has no config.json: give a folder that holds config.json and *.safetensors"
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"model.base {base!r} has no *.safetensors file (pickled weights are not read): convert it, or give another"
        )
    if (folder / "adapter_config.json").is_file():
        raise ModelError(
            f"model.base {base!r} holds an adapter beside the model (adapter_config.json), which would be loaded with it: give a folder without"
        )
    weight_files(folder)
    return folder
