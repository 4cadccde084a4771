"""What a setting names in a Python module of the user's own, as `module:NAME`."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from agon.errors import ConfigError

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_own(name: str) -> bool:
    """Tell whether a name is of something in a module of the user's, and not one that agon gives."""
    return ":" in name


def is_importable_name(name: str) -> bool:
    """Tell whether a name has the form module:NAME. Nothing is imported."""
    return _NAME.fullmatch(name) is not None


def imported(key: str, name: str) -> Any:
    """Return what the setting `key` names.

    Raises:
        ConfigError: it cannot be imported, whatever the module raises.
    """
    module, _, attribute = name.partition(":")
    try:
        with own_code():
            return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        is_itself = f"{module}.".startswith(f"{error.name}.")
        remedy = "put the module's folder on PYTHONPATH" if is_itself else f"install what {module} imports"
        raise ConfigError(f"{key} is {name!r}, which cannot be imported ({error}): {remedy}") from None
    except Exception as error:  # a module of the user's own may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{key} is {name!r}, which cannot be imported ({reason}): mend the module") from None


def imported_function(key: str, name: str) -> Callable[..., Any]:
    """Return the function that the setting `key` names.

    Raises:
        ConfigError: it cannot be imported, or is no function.
    """
    found = imported(key, name)
    if not callable(found):
        raise ConfigError(f"{key} is {name!r}, which is {type(found).__name__} and cannot be called: name a function")
    return found


@contextmanager
def own_code() -> Generator[None]:
    """Let a module of the user's own that calls `sys.exit` fail as with any other exception: it would end agon without a word.

    Raises:
        RuntimeError: it did.
    """
    try:
        yield
    except SystemExit as ended:
        raise RuntimeError(f"it called sys.exit({ended.code!r})") from None
