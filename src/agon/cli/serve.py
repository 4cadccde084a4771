"""`agon serve`: an OpenAI-compatible server over a trained pair, or over any two endpoints."""

from __future__ import annotations

import math
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

from agon.cli.common import EXIT_INTERRUPTED, SAMPLING_KEYS, Subcommands, refuse_idle, tell, text
from agon.cli.serve_endpoints import add_endpoints, open_endpoints, wants_endpoints
from agon.errors import ConfigError
from agon.serve.access import Access, Limits

if TYPE_CHECKING:
    from agon.serve.service import OpenedService, Service

KEY_VARIABLE = "AGON_API_KEY"
_OF_EVALUATION = tuple(f"evaluation.{name}" for name in ("temperature", "top_p", "max_dev", "max_test"))


def add_parser(subcommands: Subcommands) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "serve",
        help="serve a trained pair, or any two endpoints, to OpenAI's clients, and watch them think",
        description="Serve a run's pair: OpenAI's API under /v1, and a page at / on which the two can be watched. With a key in "
        f"{KEY_VARIABLE} (several by comma) or --api-key-file nobody is answered without one.",
    )
    parser.add_argument("subject", nargs="?", type=text, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--direction", choices=("a-b", "b-a"), help="who drafts in model cascade (default: chosen on dev)"
    )
    parser.add_argument("--checkpoint", metavar="STEP", type=int, help="another checkpoint than the last")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the run")
    _add_address(parser)
    _add_limits(parser)
    add_endpoints(parser)
    parser.set_defaults(run=serve)


def _add_address(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", type=text, help="where to listen (default: this machine alone)")
    parser.add_argument("--port", default=8000, type=_port, help="0 takes a free one (default: 8000)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        type=text,
        metavar="NAME",
        help="a name under which the server may be reached, beside addresses and localhost; repeat for several",
    )
    parser.add_argument("--api-key-file", type=text, metavar="FILE", help="a file with keys, one a line")


def _add_limits(parser: ArgumentParser) -> None:
    usual = Access()
    parser.add_argument(
        "--max-running",
        type=_count,
        metavar="N",
        help="matches at once (default: the engine's rows, at most 64 on a CPU)",
    )
    parser.add_argument(
        "--max-queue",
        type=_count_or_none,
        default=usual.max_queue,
        metavar="N",
        help="requests that may wait (%(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=_some_seconds,
        default=usual.limits.timeout_s,
        metavar="S",
        help="seconds that a request may take (%(default)g)",
    )
    parser.add_argument(
        "--grace", type=_seconds, default=30.0, metavar="S", help="seconds that requests get at the end (30)"
    )
    parser.add_argument(
        "--max-body",
        type=_count,
        default=usual.limits.max_body_bytes,
        metavar="BYTES",
        help="largest request (%(default)s)",
    )


def serve(options: Namespace) -> int:
    """`agon serve`."""
    from agon.serve.server import bind

    opened = open_endpoints if wants_endpoints(options) else _open_run
    service = opened(options, _access(options))
    # First, since loading takes long and an address that is taken can be told at once.
    with bind(options.host, options.port) as taken:
        if options.subject is not None:
            tell(f"loading {options.subject}")
        return _serve(options, service, taken)


def _serve(options: Namespace, service: AbstractContextManager[OpenedService], taken: socket) -> int:
    with service as ready:
        for note in ready.notes:
            tell(note)
        return _listen(options, ready.service, taken)


def _open_run(options: Namespace, access: Access) -> AbstractContextManager[OpenedService]:
    # Loads torch.
    from agon.runs.parent import default_run
    from agon.serve.run import open_run_service

    refuse_idle(options.set, (*SAMPLING_KEYS, *_OF_EVALUATION), command="agon serve")
    return open_run_service(
        default_run(Path(options.subject)),
        access,
        overrides=tuple(options.set),
        step=options.checkpoint,
        direction=options.direction,
    )


def _access(options: Namespace) -> Access:
    keys = _keys(options.api_key_file)
    if not keys and options.host not in ("127.0.0.1", "::1", "localhost"):
        tell(f"--host {options.host} lets every machine that reaches this one ask, without a key: set {KEY_VARIABLE}")
    return Access(
        limits=Limits(timeout_s=options.timeout, max_body_bytes=options.max_body),
        keys=keys,
        hosts=(options.host, *options.allow_host),
        max_running=options.max_running,
        max_queue=options.max_queue,
    )


def _listen(options: Namespace, service: Service, taken: socket) -> int:
    from agon.serve.app import create_app
    from agon.serve.server import log_to_stderr, url_of
    from agon.serve.server import serve as listen

    def say() -> None:
        models = ", ".join(service.offer.models)
        print(f"serving {service.offer.name} at {url_of(taken, options.host)} (API: /v1; models: {models})", flush=True)

    log_to_stderr()
    is_whole = listen(create_app(service), service, taken, grace_s=options.grace, on_ready=say)
    return 0 if is_whole else EXIT_INTERRUPTED


def _keys(path: str | None) -> tuple[str, ...]:
    """Return the keys of the file, or those of the environment.

    Raises:
        ConfigError: there is a place for keys with none in it, or one that cannot be sent; or there are two places.
    """
    from agon.serve.auth import read_keys

    if path is not None and KEY_VARIABLE in os.environ:
        raise ConfigError(f"keys are given by {KEY_VARIABLE} and by --api-key-file {path}: unset one of them")
    source = KEY_VARIABLE if path is None else path
    # Bytes that are no text become signs that no header can carry.
    content = os.environ.get(KEY_VARIABLE) if path is None else Path(path).read_bytes().decode("utf-8", "replace")
    if content is None:
        return ()
    keys = read_keys(content)
    if not keys:
        raise ConfigError(f"{source} holds no key: put one in, or {'unset it' if path is None else 'leave it out'}")
    if not all("!" <= letter <= "~" for key in keys for letter in key):
        raise ConfigError(
            f"{source} holds a key with a space or a sign that no header can carry: use letters and digits"
        )
    return keys


def _number(kind: Callable[[str], float], least: float, most: float, wanted: str) -> Callable[[str], float]:
    def read(value: str) -> float:
        try:
            number = kind(value)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise ArgumentTypeError(f"{value!r} is no {wanted}")
        return number

    return read


_port = _number(int, 0, 65535, "port: give 0 to 65535")
_count = _number(int, 1, 10**9, "number: give 1 or more")
_count_or_none = _number(int, 0, 10**9, "number: give 0 or more")
_seconds = _number(float, 0.0, 10**7, "number of seconds: give 0 or more")
_some_seconds = _number(float, 0.001, 10**7, "number of seconds: give more than 0")
