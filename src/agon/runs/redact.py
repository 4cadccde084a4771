"""Secrets never reach a run folder, nor a report made of one: `agon.secrecy`, by the name that run folders know it."""

from agon.secrecy import REDACTED, redact

__all__ = ["REDACTED", "redact"]
