"""What is a secret, and texts without them: secrets never reach a run folder, nor a log or a report made of one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

REDACTED = "[redacted]"

# Whole words at the end of a name: `hf_token` and `api_key` are secrets, `max_draft_tokens` and `key_field` are not.
_SECRET_NAME = re.compile(
    r"(^|[_.\-])(token|secrets?|passwd|passphrase|credentials?|authorization|cookie"
    r"|(api|access|private|secret|auth|signing|encryption)[_\-]?keys?)$|passwords?$",
    re.IGNORECASE,
)
# Names that only an environment variable has: AGON_DRAFTER_KEY, MYSQL_PWD. PWD alone is a folder.
_SECRET_VARIABLE = re.compile(r"[_\-](key|keys|pwd|pass|pat|dsn|auth)$", re.IGNORECASE)
# Tokens of a vocabulary are no secrets.
_TOKEN_OF_TEXT = re.compile(r"(^|[_.\-])(eos|bos|pad|unk|sep|cls|mask|stop|image|audio|video)_token$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What no other text looks like. Texts may be long and hostile: every pattern is linear, or repeats a bounded number of times.
_SHAPES = (
    r"\bhf_[A-Za-z0-9]{30,}",
    # OpenAI and those who copied it: a long stretch without a hyphen, which names of things do not have.
    r"\bsk-[A-Za-z0-9]{20,}|\bsk-(?=[\w\-]{0,200}\d)(?=[\w\-]{0,200}[A-Za-z0-9]{16})[\w\-]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[\w\-]{20,}",
    r"\bxox[abeprs]-[A-Za-z0-9\-]{10,}|\bnvapi-[\w\-]{30,}|\bgsk_[A-Za-z0-9]{30,}|\br8_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w\-]{40,}|\bAKIA[A-Z0-9]{16}\b|\bAIza[\w\-]{35}|\b[sr]k_live_[A-Za-z0-9]{20,}|\bwandb_v\d_[\w\-]{30,}",
    # A signed token, and a private key in PEM.
    r"\beyJ[\w\-]{8,500}\.eyJ[\w\-]{8,4000}\.[\w\-]{8,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    # In an address: name and password, or a long name alone.
    r"(?<=://)[^/\s:@]*:[^/\s]+(?=@)|(?<=://)[^/\s:@]{20,}(?=@)",
)
_CERTAIN = re.compile("|".join(_SHAPES))
# What tells by the words before it that a secret follows: a header, a parameter, an entry of a dictionary, an assignment.
_ANNOUNCED = re.compile(
    r"""(\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|bearer|token)\s+)?)[^\s"',;]+"""
    r"""|((?-i:\bBearer)\s+)[\w.~+/\-]{8,}=*"""
    r"""|(\b(?:basic|bearer)\s+)(?=\S*\d|\S{20})[\w.~+/\-]{8,}=*"""
    r"""|([?&][\w\-]{0,40}?(?:token|key|secret|password|signature|sig|auth)=)[^&\s"'<>]+"""
    r"""|((?:secret|passw(?:or)?d|passphrase|(?:api|access|private)[_\-]?key|(?:access|api|auth|hf|hub|refresh|session)[_\-]?token"""
    r"""|cookie)["']?\s*[:=]\s*["'])[^"'\n]{4,}"""
    r"""|(passw(?:or)?d\s*=\s*)[^\s"',;&]{4,}"""
    r"""|(_(?:TOKEN|API_KEY|SECRET|PASSWORD)=)[^\s"']{4,}""",
    re.IGNORECASE,
)
_MIN_LENGTH = 8
_LONG = 16


def redact(tree: Any, environ: Mapping[str, str] | None = None) -> Any:
    """Return a copy of a JSON tree with secrets replaced.

    A value counts as secret by its key's name, by its shape (access tokens, passwords in an address, headers), or because an environment
    variable with a secret's name holds it.
    """
    return _redact(tree, known_secrets(environ))


def redact_text(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a text with secrets replaced, as `redact` does."""
    return _redact_text(text, known_secrets(environ))


def holds_secret(text: str, environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether a text holds what is certainly a secret: by its shape, or because the environment says so."""
    return _CERTAIN.search(text) is not None or any(secret in text for secret in known_secrets(environ))


def known_secrets(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return what environment variables with a secret's name hold, longest first; several keys in one variable are told apart.

    Short words are left out (`POSTGRES_PASSWORD=postgres`): replaced wherever they stand, they would destroy texts. So are paths of files
    that hold secrets.
    """
    environ = os.environ if environ is None else environ
    values = [value for name, value in environ.items() if _is_secret_name(name) or _SECRET_VARIABLE.search(name)]
    parts = {part for value in values for part in (value.strip(), *re.split(r"[\s,;]+", value))}
    return sorted(filter(_is_telling, parts), key=lambda secret: (-len(secret), secret))


def _redact(tree: Any, secrets: Iterable[str]) -> Any:
    if isinstance(tree, Mapping):
        return {
            _redact_text(key, secrets) if isinstance(key, str) else key: _without_text(value)
            if _is_secret_name(str(key))
            else _redact(value, secrets)
            for key, value in tree.items()
        }
    if isinstance(tree, str):
        return _redact_text(tree, secrets)
    if isinstance(tree, list | tuple):
        return [_redact(item, secrets) for item in tree]
    return tree


def _redact_text(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    text = _CERTAIN.sub(REDACTED, text)
    return _ANNOUNCED.sub(lambda found: f"{next(filter(None, found.groups()))}{REDACTED}", text)


def _without_text(value: Any) -> Any:
    """Replace every text under a secret's name, in whatever it is packed."""
    if isinstance(value, Mapping):
        return {key: _without_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_text(item) for item in value]
    return REDACTED if isinstance(value, str) and value else value


def _is_secret_name(name: str) -> bool:
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None and _TOKEN_OF_TEXT.search(name) is None


def _is_telling(value: str) -> bool:
    if len(value) < _MIN_LENGTH or value.startswith(("/", "~", "./")):
        return False
    return len(value) >= _LONG or not value.isalpha()
