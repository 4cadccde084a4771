"""Curves to a tracker beside metrics.jsonl: Trackio, Weights & Biases or TensorBoard behind one switch.

A tracker is a service of somebody else's: it may be slow, fail or be gone in the middle of a night. It runs in a thread of its own, and
costs a run nothing but its curves, which metrics.jsonl has all the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from agon.config import Settings, TrackingSettings
from agon.errors import ConfigError
from agon.runs.manifest import TENSORBOARD
from agon.secrecy import redact_text

Say = Callable[[str], None]
_PATIENCE_S = 60.0


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


def open_tracker(settings: Settings, run: Path, *, say: Say) -> Tracker | None:
    """Open the tracker a recipe asks for, or none. What goes wrong with it later is told through `say`.

    Raises:
        ConfigError: its package is not installed.
    """
    own = settings.tracking
    require_tracker(own)
    if own.backend == "none":
        return None

    def open_one() -> Tracker:
        if own.backend == "tensorboard":
            return _TensorBoard(run)
        return _RunTracker(own, run.name, settings.model_dump(mode="json"))

    return Detached(open_one, own.backend, say=say)


class Detached:
    """Opens a tracker in a thread and hands it what is logged there. Whatever it raises is told once, and its lines are counted as lost.

    Units: seconds that `close` waits for what is still on its way.
    """

    def __init__(
        self, open_one: Callable[[], Tracker], name: str, *, say: Say, patience_s: float = _PATIENCE_S
    ) -> None:
        self._open_one = open_one
        self._name = name
        self._say = say
        self._patience_s = patience_s
        self._waiting: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()
        self._num_logged = 0
        self._num_sent = 0
        self._has_complained = False
        # A daemon: a service that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="agon-tracker", daemon=True)
        self._thread.start()

    def log(self, row: Mapping[str, Any]) -> None:
        """Hand on one line, without waiting for it."""
        self._num_logged += 1
        self._waiting.put(row)

    def close(self) -> None:
        """Wait a while for the last lines to arrive, and say how many did not."""
        self._waiting.put(None)
        self._thread.join(self._patience_s)
        lost = self._num_logged - self._num_sent
        if self._thread.is_alive():
            self._say(
                f"warning: {self._name} has not taken {lost} of {self._num_logged} steps within {self._patience_s:g} s; "
                "metrics.jsonl has them all"
            )
        elif lost:
            self._say(
                f"warning: {lost} of {self._num_logged} steps did not reach {self._name}; metrics.jsonl has them all"
            )

    def _run(self) -> None:
        try:
            tracker = self._open_one()
        except BaseException as error:  # a service's own way to end a program must not end ours
            self._complain("did not start", error)
            return
        while (row := self._waiting.get()) is not None:
            try:
                tracker.log(row)
                self._num_sent += 1
            except BaseException as error:
                self._complain(f"did not take step {row['step']}", error)
        try:
            tracker.close()
        except BaseException as error:
            self._complain("did not end well", error)

    def _complain(self, what: str, error: BaseException) -> None:
        if not self._has_complained:
            self._has_complained = True
            reason = redact_text(" ".join(str(error).split()))
            self._say(f"warning: {self._name} {what} ({type(error).__name__}: {reason}); training goes on without it")


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
        self._writer = module.SummaryWriter(log_dir=str(run / TENSORBOARD))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in _numbers(row).items():
            self._writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        self._writer.close()


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, (int, float))}
