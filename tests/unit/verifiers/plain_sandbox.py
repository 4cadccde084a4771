"""A stand-in for the sandbox without isolation: the judge's side is the same, and tests of the judge need no more."""

from __future__ import annotations

import subprocess
import sys

from agon.verifiers.sandbox.plain import NotPlainError, decode, encode
from agon.verifiers.sandbox.records import CallResult, ProgramFailed, ProgramRun

_MAX_BYTES = 2**20


class PlainSandbox:
    """Runs programs as they are. `ended` makes every run and call end by that limit instead."""

    def __init__(self, ended=None, seconds=0.01):
        self.ended = ended
        self.seconds = seconds
        self.runs = []

    def run(self, program, stdin, limits):
        self.runs.append(limits)
        if self.ended:
            return ProgramRun(self.ended, -9, b"", "", self.seconds)
        done = subprocess.run([sys.executable, "-I", "-c", program], input=stdin, capture_output=True, timeout=60)
        ended = "signal" if done.returncode < 0 else "exit"
        return ProgramRun(ended, done.returncode, done.stdout, done.stderr.decode(), self.seconds)

    def load(self, program, limits):
        namespace = {"__name__": "program"}
        try:
            exec(compile(program, "<program>", "exec"), namespace)
        except BaseException as error:
            raise _failure(error) from None
        return _Session(namespace, self.ended)


class _Session:
    def __init__(self, namespace, ended):
        self.namespace = namespace
        self.ended = ended

    def call(self, name, args, kwargs):
        if self.ended:
            raise ProgramFailed(self.ended, "")
        if name not in self.namespace:
            raise ProgramFailed("no such name", name)
        args, kwargs = _copy(args), _copy(kwargs)
        try:
            value = self.namespace[name](*args, **kwargs)
        except BaseException as error:
            raise _failure(error) from None
        try:
            return CallResult(_copy(value), _copy(args), _copy(kwargs))
        except NotPlainError as error:
            raise ProgramFailed("not plain", str(error)) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def _copy(value):
    return decode(encode(value, max_bytes=_MAX_BYTES))


def _failure(error):
    if isinstance(error, SystemExit):
        return ProgramFailed("exit", f"exit code {error.code}")
    return ProgramFailed("exception", f"{type(error).__name__}: {error}", exception_name=type(error).__name__)
