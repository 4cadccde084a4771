"""Any two endpoints: where they are and with which key they are asked, and what their models read. Free of torch and of HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, urlsplit

from agon.config import TaskSettings
from agon.errors import ConfigError
from agon.match.lineups import lineup_for
from agon.prompts.marks import without_marks
from agon.prompts.summary import DraftSummarizer
from agon.prompts.wordings import WORDINGS
from agon.records import AnswerStyle, Lineup, PlainWording, Problem, Prompt, Role, Summary, Withholding
from agon.secrecy import REDACTED, redact
from agon.serve.words import words_of

ADAPTER_OF: Mapping[Role, str] = {"drafter": "A", "challenger": "B"}
"""The place of each endpoint in a line-up. As adapters do, endpoints keep it when the roles swap."""

_OPENAI_HOST = "api.openai.com"
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_VERSION = re.compile(r"v\d+[a-z0-9.]*", re.IGNORECASE)
_CHAT_ROUTE = "/chat/completions"

# What chat templates write between turns. A server that finds it in a message may take it for the end of the turn.
_ENDS_WITH_MARK = re.compile(
    r"(?:<[|｜][^<>|｜\s]{1,60}[|｜]>|<\|?(?:turn|channel)\|?>|<(?:bos|eos|/?s|(?:start|end)_of_turn)>|\[/?INST\]|<</?SYS>>)\Z"
)
_LONGEST_MARK = 64


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server: its base URL, its model (None: the only one that it lists) and its key (None: it gets none).

    `name` is the option that gave it. `key_variable` is where its key is looked for, `is_local` whether it is on this machine.
    """

    name: Role
    base_url: str
    model: str | None
    key: str | None = field(repr=False)
    key_variable: str
    is_local: bool

    @property
    def shows_key(self) -> bool:
        """Whether its key travels to another machine unencrypted."""
        return self.key is not None and not self.is_local and self.base_url.startswith("http:")


def endpoint_of(
    name: Role, url: str, model: str | None = None, *, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """Read where an endpoint is and find its key in the environment.

    A path without a version (`v1`, `v1beta`, …) gets `/v1`. Each endpoint has a variable of its own; OPENAI_API_KEY goes to OpenAI's
    host over TLS alone: a key is never sent to a host that it is not for.

    Raises:
        ConfigError: the address cannot be used or holds a secret, or the key is no key.
    """
    parts = _split(name, url)
    host = (parts.hostname or "").rstrip(".")
    variable = f"AGON_{name.upper()}_KEY"
    is_openai = parts.scheme == "https" and host == _OPENAI_HOST and parts.port in (None, 443)
    key = _key(variable, environ) or (_key("OPENAI_API_KEY", environ) if is_openai else None)
    return Endpoint(
        name=name,
        base_url=f"{parts.scheme}://{parts.netloc}{_base_path(parts.path)}",
        model=model,
        key=key,
        key_variable=variable,
        is_local=host in _LOOPBACK_HOSTS or host.startswith("127."),
    )


def _split(name: Role, url: str) -> SplitResult:
    shown = _without_secrets(url)
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address, parts = False, urlsplit("")
    if not is_address or re.search(r"[\s\x00-\x1f\\]", url.strip()):
        raise ConfigError(f"--{name} is {shown!r}, which is no address: give one such as http://127.0.0.1:8001/v1")
    if "@" in parts.netloc:
        raise ConfigError(
            f"--{name} is {shown!r}, with a name or password in it: leave them out, and put the key into "
            f"AGON_{name.upper()}_KEY"
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"--{name} is {shown!r} and more behind it: give the base URL without ? and #")
    return parts


def _without_secrets(url: str) -> str:
    """Return an address that may be printed: without name and password, query and fragment."""
    named = re.sub(r"^((?:[a-z][a-z0-9+.-]*://)?).*@", rf"\1{REDACTED}@", url.strip(), flags=re.IGNORECASE | re.DOTALL)
    return redact(re.split(r"[?#]", named, maxsplit=1)[0], {})


def _base_path(path: str) -> str:
    path = path.rstrip("/").removesuffix(_CHAT_ROUTE).rstrip("/")
    has_version = any(_VERSION.fullmatch(part) for part in path.split("/"))
    return path if has_version else f"{path}/v1"


def _key(variable: str, environ: Mapping[str, str] | None) -> str | None:
    key = (os.environ if environ is None else environ).get(variable, "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(f"{variable} holds a space or a sign that no key has: set it to the key alone")
    return key or None


def endpoint_lineups() -> dict[str, Lineup]:
    """Return who plays in each model that two endpoints offer, the default first."""
    return {
        "cascade": lineup_for("cascade", direction="a-b"),
        "cascade-b-a": lineup_for("cascade", direction="b-a"),
        "drafter": lineup_for("single", adapter=ADAPTER_OF["drafter"]),
        "challenger": lineup_for("single", adapter=ADAPTER_OF["challenger"]),
    }


def endpoint_task(
    style: AnswerStyle, *, wording: PlainWording = "plain-v1", withholding: Withholding = "mark"
) -> TaskSettings:
    """Return the settings of the problems that two endpoints are asked: any text, checked as mathematics where the right answer is given."""
    return TaskSettings(
        name="custom",
        verifier="code" if style == "code" else "math",
        answer_style=style,
        wording=wording,
        withholding=withholding,
    )


class EndpointPrompts:
    """Writes the user turns of drafts and challenges as a pair that trains with these settings reads them, as text: each endpoint has a template.

    What a rival left is stripped of the marks of chat templates, so that a draft cannot close the turn of its challenger.
    """

    def __init__(self, task: TaskSettings) -> None:
        self._style: AnswerStyle = task.answer_style
        self._wording = WORDINGS[task.wording]

    def draft(self, problem: Problem) -> Prompt:
        """Ask for a solution of a problem."""
        return Prompt((), self._wording.draft(problem, self._style))

    def challenge(self, problem: Problem, summaries: Sequence[Summary]) -> Prompt:
        """Ask for a solution of a problem by one who reads the summaries of one or more rivals."""
        shown = [
            replace(
                summary, text=without_marks(summary.text, _ENDS_WITH_MARK, last_characters=">]", longest=_LONGEST_MARK)
            )
            for summary in summaries
        ]
        return Prompt((), self._wording.challenge(problem, shown, self._style))


def endpoint_summarizer(task: TaskSettings) -> DraftSummarizer:
    """Return what says what a challenger may see of a draft, with lengths in words and signs: an endpoint's tokenizer is not known."""
    return DraftSummarizer(task.answer_style, words_of, task.withholding)
