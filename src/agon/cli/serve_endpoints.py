"""What `agon serve` takes in place of a run: two endpoints."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from agon.cli.common import text
from agon.errors import ConfigError
from agon.records import ANSWER_STYLES, PLAIN_WORDINGS, WITHHOLDINGS

if TYPE_CHECKING:
    from agon.serve.access import Access
    from agon.serve.service import OpenedService

_OF_A_RUN = ("direction", "checkpoint", "set")
# What a run was trained with, and two endpoints are told.
_OF_THE_TASK = ("wording", "withholding")
_OF_ENDPOINTS = (
    *("drafter", "challenger", "drafter_model", "challenger_model"),
    *("answer_style", *_OF_THE_TASK, "max_tokens"),
)


def add_endpoints(parser: ArgumentParser) -> None:
    """Add what names two endpoints and says what they are asked."""
    group = parser.add_argument_group(
        "two endpoints",
        "In place of RUN: two OpenAI-compatible servers, one of which drafts and the other challenges. Their keys stand in "
        "AGON_DRAFTER_KEY and AGON_CHALLENGER_KEY.",
    )
    for name in ("drafter", "challenger"):
        group.add_argument(f"--{name}", type=text, metavar="URL", help="its base URL, such as http://127.0.0.1:8001/v1")
        group.add_argument(
            f"--{name}-model", type=text, metavar="NAME", help="one of its models (default: the only one)"
        )
    group.add_argument(
        "--answer-style", choices=ANSWER_STYLES, help="how a final answer is to be marked (default: boxed)"
    )
    group.add_argument(
        "--wording", choices=PLAIN_WORDINGS, help="how a draft and a challenge are asked for (default: plain-v1)"
    )
    group.add_argument(
        "--withholding",
        choices=WITHHOLDINGS,
        help="what a challenger sees of a draft's answer: a mark in its place, or nothing of the sentences that show it (default: mark)",
    )
    group.add_argument(
        "--max-tokens", type=int, metavar="N", help="what a stage may take if the request says nothing (4096)"
    )


def wants_endpoints(options: Namespace) -> bool:
    """Tell whether two endpoints are to be served, not a run.

    Raises:
        ConfigError: neither, both, or an option that has no meaning for what is served.
    """
    of_run, of_endpoints = _given(options, _OF_A_RUN), _given(options, _OF_ENDPOINTS)
    is_remote = bool({"drafter", "challenger"} & set(of_endpoints))
    if options.subject is None and not is_remote:
        raise ConfigError("nothing to serve was named: give a run folder, or --drafter URL and --challenger URL")
    if options.subject is not None and of_endpoints:
        raise ConfigError(
            f"{_option(of_endpoints[0])} is for two endpoints, but a run was named: leave one of them out"
        )
    if is_remote and of_run:
        raise ConfigError(f"{_option(of_run[0])} is for a run, but two endpoints were named: leave it out")
    for name in ("drafter", "challenger") if is_remote else ():
        if name not in of_endpoints:
            raise ConfigError(f"--{name} is missing: give its URL, which may be that of the other endpoint")
    if options.max_tokens is not None and options.max_tokens < 1:
        raise ConfigError(f"--max-tokens is {options.max_tokens}, but a stage needs tokens: give 1 or more")
    return is_remote


def open_endpoints(options: Namespace, access: Access) -> AbstractContextManager[OpenedService]:
    """Open the service of the endpoints that the options name.

    Raises:
        ConfigError: an address or a key cannot be used.
    """
    from agon.serve.endpoints import endpoint_of, endpoint_task
    from agon.serve.remote.service import DEFAULT_MAX_TOKENS, open_endpoint_service

    told = {name: getattr(options, name) for name in _given(options, _OF_THE_TASK)}
    return open_endpoint_service(
        endpoint_of("drafter", options.drafter, options.drafter_model),
        endpoint_of("challenger", options.challenger, options.challenger_model),
        access,
        task=endpoint_task(options.answer_style or "boxed", **told),
        max_tokens=options.max_tokens or DEFAULT_MAX_TOKENS,
    )


def _given(options: Namespace, names: Sequence[str]) -> list[str]:
    return [name for name in names if getattr(options, name) not in (None, [])]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
