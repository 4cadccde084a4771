"""Runs a program in the confined process: as a script on standard input, or as functions that answer calls.

Everything here is at the program's mercy. Whatever it makes of it, the other side reads only bytes, and believes none of them to be
more than an answer to the one question it asked last.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import linecache
import os
import signal
import struct
import sys
import threading
import types
from typing import Any, NoReturn

from agon.verifiers.sandbox import plain

REQUESTS, REPLIES = 3, 4
HEADER = struct.Struct("<I16s")
_FILE_NAME = "program.py"
_MAX_MESSAGE = 500


def main(*, is_run: bool, max_reply_bytes: int) -> NoReturn:
    """Read the program's text, then run it to its end, or answer calls until the other side is gone."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    _open_streams()
    nonce, text = _read_frame()
    source = text.decode("utf-8", "surrogatepass")
    if is_run:
        os.close(REQUESTS)
        _run_script(source)
    _serve_calls(source, nonce, max_reply_bytes)


def _run_script(source: str) -> NoReturn:
    module = _new_module("__main__")
    code = 1
    try:
        exec(_compiled(source), module.__dict__)
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except MemoryError:
        _report_memory()
    except BaseException as error:
        code = _show(error)
    os._exit(_end(code))


def _serve_calls(source: str, nonce: bytes, max_reply_bytes: int) -> NoReturn:
    module = _new_module("program")
    reply = _attempt(lambda: _load(source, module))
    while True:
        _write_all(REPLIES, HEADER.pack(len(reply), nonce) + reply)
        if reply[:1] == b"X":
            os._exit(0)
        nonce, request = _read_frame()
        reply = _attempt(lambda: _call(module, request, max_reply_bytes))  # noqa: B023 - called at once


def _load(source: str, module: types.ModuleType) -> bytes:
    exec(_compiled(source), module.__dict__)
    return b"R"


def _call(module: types.ModuleType, request: bytes, max_reply_bytes: int) -> bytes:
    name, args, kwargs = plain.decode(request)
    function = module.__dict__.get(name)
    if not callable(function):
        return b"U"
    value = plain.encode(function(*args, **kwargs), max_bytes=max_reply_bytes, is_from_program=True)
    try:
        after = plain.encode([name, args, kwargs], max_bytes=max_reply_bytes, is_from_program=True)
    except plain.NotPlainError:
        return b"L" + value
    return b"S" + value if after == request else b"C" + struct.pack("<I", len(value)) + value + after


def _attempt(step: Any) -> bytes:
    """Return a reply whatever happens: a letter that says what it is, then its content."""
    try:
        return step()
    except plain.NotPlainError as error:
        return b"N" + str(error)[:_MAX_MESSAGE].encode("utf-8", "replace")
    except SystemExit as error:
        return b"X" + f"SystemExit({error.code!r:.50})".encode("utf-8", "replace")
    except MemoryError:
        return b"M"
    except BaseException as error:
        name, message = type(error).__name__, ""
        try:
            message = str(error)[:_MAX_MESSAGE]
        except BaseException:
            message = "(its message cannot be shown)"
        return b"E" + name.encode("utf-8", "replace") + b"\0" + message.encode("utf-8", "replace")


def _compiled(source: str) -> types.CodeType:
    linecache.cache[_FILE_NAME] = (len(source), None, source.splitlines(keepends=True), _FILE_NAME)
    return compile(source, _FILE_NAME, "exec", dont_inherit=True)


def _new_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(__builtins__=builtins, __file__=_FILE_NAME)
    sys.modules["__main__"] = sys.modules[name] = module
    return module


def _open_streams() -> None:
    # As in UTF-8 mode: any bytes can be read and written back. closefd: the program may close its own copies of the numbers.
    options: dict[str, Any] = {"encoding": "utf-8", "closefd": False}
    sys.stdin = sys.__stdin__ = open(0, errors="surrogateescape", **options)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", errors="surrogateescape", **options)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", errors="backslashreplace", buffering=1, **options)  # noqa: SIM115


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> int:
    try:
        if error.__traceback__ is not None:
            error = error.with_traceback(error.__traceback__.tb_next)  # without the frame of this file
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as second:
        sys.__excepthook__(type(second), second, second.__traceback__)
    return 1


def _report_memory() -> None:
    os.write(2, b"MemoryError\n")
    os.write(REPLIES, b"M")


def _end(code: int) -> int:
    """Do what an interpreter does at its end: wait for threads, run what was registered, write out what was printed."""
    try:
        threading._shutdown()  # pyright: ignore
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        sys.stderr.flush()
    except MemoryError:
        _report_memory()
        return 1
    except BaseException:
        return 120
    return code


def _read_frame() -> tuple[bytes, bytes]:
    length, nonce = HEADER.unpack(_read_exactly(HEADER.size))
    return nonce, _read_exactly(length)


def _read_exactly(count: int) -> bytes:
    pieces: list[bytes] = []
    while count:
        piece = os.read(REQUESTS, min(count, 1 << 20))
        if not piece:
            os._exit(0)  # the other side wants no more
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
