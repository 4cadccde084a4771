"""Secrets never reach a run folder, nor a report made of one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"

# Whole words at the end of a name: `hf_token` and `api_key` are secrets, `max_draft_tokens` and `key_field` are not.
_SECRET_NAME = re.compile(
    r"(^|[_.\-])(token|secret|password|passwd|passphrase|credentials?|authorization|cookie|(api|access|private|secret|auth)[_\-]?key)$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_\-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9\-]{10,}|\bAKIA[A-Z0-9]{16}\b|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/\-]{8,}=*|(?<=[?&]token=)[^&\s]+"
)
_MIN_SECRET_LENGTH = 8


def redact(tree: Any, environ: Mapping[str, str] | None = None) -> Any:
    """Return a copy of a JSON tree with secrets replaced.

    A value counts as secret by its key's name, by its shape (access tokens, passwords in an address), or because an environment
    variable with a secret's name holds it.
    """
    environ = os.environ if environ is None else environ
    secrets = [value for name, value in environ.items() if _is_secret_name(name) and len(value) >= _MIN_SECRET_LENGTH]
    return _redact(tree, sorted(secrets, key=len, reverse=True))


def _redact(tree: Any, secrets: Sequence[str]) -> Any:
    if isinstance(tree, Mapping):
        return {
            key: REDACTED if _is_secret_name(str(key)) and isinstance(value, str) and value else _redact(value, secrets)
            for key, value in tree.items()
        }
    if isinstance(tree, str):
        for secret in secrets:
            tree = tree.replace(secret, REDACTED)
        return _SECRET_TEXT.sub(REDACTED, tree)
    if isinstance(tree, list | tuple):
        return [_redact(item, secrets) for item in tree]
    return tree


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None
