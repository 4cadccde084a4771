"""Two endpoints as a service: any two models draft and challenge as a pair does. No torch, no GPU."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agon.config import TaskSettings, VerifierSettings
from agon.match.asking import Sampling
from agon.serve.access import Access
from agon.serve.endpoints import Endpoint, EndpointPrompts, endpoint_lineups, endpoint_summarizer
from agon.serve.models import Offer
from agon.serve.remote.backend import RemoteBackend
from agon.serve.service import OpenedService, open_service
from agon.verifiers.registry import open_verifiers

DEFAULT_MAX_TOKENS = 4096
"""What a stage may take if the request says nothing. Units: the endpoint's tokens."""
MAX_SUMMARY_WORDS = 512
"""What crosses at most, if the request says nothing. Units: words and signs."""

_MAX_RUNNING = 64


@contextmanager
def open_endpoint_service(
    drafter: Endpoint,
    challenger: Endpoint,
    access: Access,
    *,
    task: TaskSettings,
    max_tokens: int = DEFAULT_MAX_TOKENS,
) -> Generator[OpenedService]:
    """Open a service over two endpoints, asked as `task` says. Nothing is asked of them until its backend is started."""
    offer, backend = _offer(task, max_tokens), RemoteBackend(drafter, challenger)
    verifiers = open_verifiers(VerifierSettings())
    with open_service(offer, backend, verifiers, access=access, max_running=_MAX_RUNNING) as service:
        yield OpenedService(service, tuple(_notes(drafter, challenger)))


def _offer(task: TaskSettings, max_tokens: int) -> Offer:
    return Offer(
        name="two endpoints",
        models=endpoint_lineups(),
        sampling=Sampling(
            max_draft_tokens=max_tokens, max_challenge_tokens=max_tokens, max_summary_tokens=MAX_SUMMARY_WORDS
        ),
        prompts=EndpointPrompts(task),
        summarizer=endpoint_summarizer(task),
        style=task.answer_style,
        task=task,
        takes_conversations=True,
    )


def _notes(*endpoints: Endpoint) -> Generator[str]:
    for endpoint in endpoints:
        if endpoint.shows_key:
            yield f"the {endpoint.name}'s key travels unencrypted to {endpoint.base_url}: take https if the endpoint has it"
