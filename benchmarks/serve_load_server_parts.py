"""The server of `serve_load.py`, a process of its own: agon's application whole, but for what samples.

    python benchmarks/serve_load_server_parts.py '{"seconds": 1.0, "num_pieces": 1, "max_running": 256}'

Prompts, summaries, withholding and verdicts are those that two endpoints get (no tokenizer of a model). A draft holds the problem's mark
and a note; the challenge repeats the mark and the notes that it was shown, so that an answer whose parts come from two requests gives itself away.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from agon.config import TaskSettings, VerifierSettings
from agon.match.asking import Sampling
from agon.match.exchange import Turn
from agon.methods.registry import method_named
from agon.records import Problem, Prompt, Summary
from agon.serve.access import Access
from agon.serve.app import create_app
from agon.serve.endpoints import EndpointPrompts, endpoint_summarizer, endpoint_task
from agon.serve.models import Offer, run_models
from agon.serve.scripted import ScriptedBackend
from agon.serve.server import bind, log_to_stderr, serve, url_of
from agon.serve.service import open_service
from agon.verifiers.registry import open_verifiers

CAP = 1000
_MARK = re.compile(r"mark-[0-9a-f]{12}")
_NOTE = re.compile(r"note-[0-9a-f]{12}")
_FILLER = (
    " The sum is taken term by term, each term is looked at twice, and what was found is put together at the end." * 3
)


def main() -> None:
    options = json.loads(sys.argv[1])
    offer = Offer(
        name="a script",
        models=run_models(method_named("agon"), "a-b"),
        sampling=Sampling(max_draft_tokens=CAP, max_challenge_tokens=CAP, max_summary_tokens=CAP),
        prompts=BytePrompts(),
        summarizer=endpoint_summarizer(endpoint_task("tags")),
        style="tags",
        task=TaskSettings(name="custom", path="none.jsonl", verifier="exact"),
    )
    backend = ScriptedBackend(
        answer, seconds=options["seconds"], num_pieces=options.get("num_pieces", 1), context_length=10 * CAP
    )
    access = Access(
        keys=tuple(options.get("keys", ())),
        max_running=options.get("max_running", 256),
        max_queue=options.get("max_queue", 256),
    )
    if options.get("logs", True):
        log_to_stderr()
    verifier = open_verifiers(VerifierSettings())
    with (
        bind("127.0.0.1", 0) as taken,
        open_service(offer, backend, verifier, access=access, max_running=256) as service,
    ):
        serve(
            create_app(service),
            service,
            taken,
            grace_s=5,
            on_ready=lambda: print(url_of(taken, "127.0.0.1"), flush=True),
        )


class BytePrompts:
    """The prompts of endpoints with their bytes for tokens, so that what is counted and bounded is counted and bounded here."""

    def __init__(self) -> None:
        self._prompts = EndpointPrompts(endpoint_task("tags"))

    def draft(self, problem: Problem) -> Prompt:
        return _with_bytes(self._prompts.draft(problem))

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        return _with_bytes(self._prompts.challenge(problem, summaries))


def _with_bytes(prompt: Prompt) -> Prompt:
    return replace(prompt, token_ids=tuple(prompt.text.encode()))


def answer(turn: Turn) -> str:
    """Say what was read: the draft a mark and a note, the challenge both again."""
    asked = turn.prompt.text
    (mark,) = set(_MARK.findall(asked))
    if turn.role == "drafter":
        return f"note-{mark[5:][::-1]} was made.{_FILLER}\n<answer>{mark}</answer>"
    return f"I read {' '.join(_NOTE.findall(asked))}.{_FILLER}\n<answer>{mark}</answer>"


if __name__ == "__main__":
    main()
