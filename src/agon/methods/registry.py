"""Names of training methods. Nothing else is shared here."""

from __future__ import annotations

from agon.errors import ConfigError
from agon.methods.base import Method
from agon.methods.exchange import Exchange
from agon.methods.grpo import Grpo
from agon.records import METHODS

_METHODS: dict[str, Method] = {
    "grpo": Grpo(),
    "cooperative": Exchange(name="cooperative", has_bonus=False),
    "agon": Exchange(name="agon", has_bonus=True),
}


def method_named(name: str) -> Method:
    """Return the training method a recipe names.

    Raises:
        ConfigError: no such method.
    """
    if name not in _METHODS:
        raise ConfigError(f"train.method is {name!r}, which is not known; known: {', '.join(METHODS)}")
    return _METHODS[name]
