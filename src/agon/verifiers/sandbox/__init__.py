"""Runs programs that nobody trusts: isolated, limited, and gone without a trace."""

from agon.verifiers.sandbox.confine import confine_this_process
from agon.verifiers.sandbox.functions import FunctionSession
from agon.verifiers.sandbox.layers import is_isolated
from agon.verifiers.sandbox.plain import NotPlainError, Opaque
from agon.verifiers.sandbox.records import CallResult, Layer, Limits, ProgramFailed, ProgramRun, SandboxError
from agon.verifiers.sandbox.report import isolation_report
from agon.verifiers.sandbox.sandbox import Sandbox

__all__ = [
    "CallResult",
    "FunctionSession",
    "Layer",
    "Limits",
    "NotPlainError",
    "Opaque",
    "ProgramFailed",
    "ProgramRun",
    "Sandbox",
    "SandboxError",
    "confine_this_process",
    "is_isolated",
    "isolation_report",
]
