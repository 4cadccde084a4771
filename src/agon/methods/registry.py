"""Training methods by name. Nothing else is shared here."""

from __future__ import annotations

from importlib import import_module

from agon.errors import ConfigError
from agon.methods.base import BaseMethod
from agon.methods.exchange import Agon, Cooperative
from agon.methods.grpo import Grpo
from agon.records import METHODS

_METHODS: dict[str, BaseMethod] = {method.name: method for method in (Grpo(), Cooperative(), Agon())}


def method_named(name: str) -> BaseMethod:
    """Return the training method a recipe names: one of agon's own, or `module:NAME` of any module that Python finds.

    Raises:
        ConfigError: no such method.
    """
    if ":" in name:
        return _imported(name)
    if name not in _METHODS:
        raise ConfigError(f"train.method is {name!r}, which is not known; known: {', '.join(METHODS)}, or module:NAME")
    return _METHODS[name]


def _imported(name: str) -> BaseMethod:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"train.method is {name!r}, which cannot be imported ({error}): put the module's folder on PYTHONPATH"
        ) from None
    method = found() if isinstance(found, type) else found
    if not isinstance(method, BaseMethod):
        raise ConfigError(
            f"train.method is {name!r}, which is no agon.methods.base.BaseMethod: make it a subclass of one"
        )
    return method
