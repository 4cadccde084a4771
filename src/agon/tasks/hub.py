"""Hub data sets, with one clear line when one cannot be had."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agon.errors import DataError

_REACH_TIMEOUT_S = 3.0
_REMEDY = "set task.path to a local JSONL, Parquet or CSV file of the same shape"


class HubDataError(DataError):
    """A Hub data set that cannot be had; `why` says so without the remedy, which is another where no setting names the data."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why} {_REMEDY}")
        self.why = why


def load_hub(name: str, config: str | None, split: str) -> Any:
    """Return a split of a Hub data set; without network, what the local cache holds of it.

    Raises:
        HubDataError: it does not exist, needs a login, has no such configuration or split, or cannot be reached.
    """
    if Path(name).is_dir():
        raise HubDataError(
            f"{name!r} is a Hub data set's name and a folder here, which would be read instead: start elsewhere, or"
        )
    is_reachable = hub_is_reachable()
    import datasets
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    # The library knows these as readers, which take whatever files of their kind lie in the working folder.
    if name in vars(import_module("datasets.packaged_modules"))["_PACKAGED_DATASETS_MODULES"]:
        raise HubDataError(f"{name!r} is a file format, and no data set of the Hub: name one as OWNER/NAME, or")
    try:
        with _offline(datasets, is_offline=not is_reachable):
            return datasets.load_dataset(name, config, split=split)
    except GatedRepoError:
        why = "needs a login whose owner has accepted its terms: do that, run `hf auth login`, or"
    except (RepositoryNotFoundError, DatasetNotFoundError) as error:
        is_gated = "gated" in str(error).lower()
        why = (
            "is gated: accept its terms and run `hf auth login`, or"
            if is_gated
            else "does not exist: correct the name, or"
        )
    except ValueError as error:  # an unknown configuration or split
        why = f"cannot be used ({_first_line(error)}): set task.hub_config or task.hub_split, or"
    except Exception as error:  # the many ways in which a download fails
        reason = _first_line(error) if is_reachable else "no network, and it is not in the local cache"
        why = f"cannot be reached ({reason}):"
    raise HubDataError(f"the Hub data set {name!r} {why}")


def hub_is_reachable() -> bool:
    """Whether the Hub answers within seconds: its own client would retry for minutes before it says no."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if any(os.environ.get(proxy) for proxy in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        port = endpoint.port or (80 if endpoint.scheme == "http" else 443)
        socket.create_connection((endpoint.hostname or "", port), timeout=_REACH_TIMEOUT_S).close()
    except OSError:
        return False
    return True


@contextmanager
def _offline(datasets: Any, *, is_offline: bool) -> Generator[None]:
    """Make both libraries look at their cache alone. They read the environment at import, so the variable comes too late."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    if is_offline:
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
