"""Curves to a tracker beside metrics.jsonl: Trackio, Weights & Biases or TensorBoard behind one switch."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from agon.config import Settings, TrackingSettings
from agon.errors import ConfigError


class Tracker(Protocol):
    """Takes a metrics line a step."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Send one line."""
        ...

    def close(self) -> None:
        """Flush and end."""
        ...


_PACKAGES = {"trackio": "trackio", "wandb": "wandb", "tensorboard": "tensorboard"}


def require_tracker(settings: TrackingSettings) -> None:
    """Check that the tracker a recipe asks for is installed, before anything heavy is loaded.

    Raises:
        ConfigError: it is not.
    """
    package = _PACKAGES.get(settings.backend)
    if package is not None and importlib.util.find_spec(package) is None:
        raise ConfigError(
            f'tracking.backend is "{package}", but it is not installed: pip install "agon-rl[{package}]", or set it to "none"'
        )


def open_tracker(settings: Settings, run: Path) -> Tracker | None:
    """Open the tracker a recipe asks for, or none.

    Raises:
        ConfigError: its package is not installed.
    """
    own = settings.tracking
    require_tracker(own)
    if own.backend == "none":
        return None
    if own.backend == "tensorboard":
        return _TensorBoard(run)
    return _RunTracker(own, run.name, settings.model_dump(mode="json"))


class _RunTracker:
    """Trackio and W&B share one interface: init, log, finish."""

    def __init__(self, settings: TrackingSettings, name: str, config: Mapping[str, Any]) -> None:
        self._module: Any = importlib.import_module(settings.backend)
        self._module.init(project=settings.project, name=name, config=dict(config))

    def log(self, row: Mapping[str, Any]) -> None:
        self._module.log(_numbers(row))

    def close(self) -> None:
        self._module.finish()


class _TensorBoard:
    def __init__(self, run: Path) -> None:
        module: Any = importlib.import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(log_dir=str(run / "tensorboard"))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in _numbers(row).items():
            self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        self._writer.close()


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}
