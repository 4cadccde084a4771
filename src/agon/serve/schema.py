"""What a request may say: every field works, or is refused by name.

A field of OpenAI's that does nothing here may be sent with the value that asks for nothing; null is as good as leaving a field out.
`user` and `metadata` are for the client's own books: they are checked and not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agon.config import did_you_mean
from agon.serve.errors import RequestError

MOST_CHOICES = 8
MOST_STOPS = 4
_LARGEST_SEED = 2**63 - 1
# No cap is that high: where the context is known, what does not fit in it is refused as well.
_MOST_TOKENS = 1_000_000
# Below, logits divided by the temperature leave the numbers that float32 has.
_COLDEST = 0.01
_MOST_SHOWN = 60


# The fields of OpenAI's that do nothing here, and the values (beside null) that ask for nothing.
_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "safety_identifier": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
}


# The same for what answers carry beside their text, which clients send back as they got it.
_NEUTRAL_IN_MESSAGE: Mapping[str, Any] = {"annotations": [], "tool_calls": []}


def _said(value: Any) -> Any:
    """Leave out of a message, or of a part of one, what says nothing. No content is not nothing."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {
        name: one
        for name, one in fields.items()
        if name in ("content", "text") or not (one is None or one == _NEUTRAL_IN_MESSAGE.get(name))
    }


def _parts(value: Any) -> Any:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("content", "Give a text, or a list of text parts")


def _stops(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return value
    raise PydanticCustomError("stop", "Give a text, or a list of texts")


def _one_prompt(value: Any) -> str | list[int]:
    """Take a prompt out of the list that it may stand in: some clients send a list of prompts even of one."""
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], int):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(token) is int for token in value):
        return value
    raise PydanticCustomError("prompt", "Give one prompt, as a text or as token ids")


_Tokens = Annotated[int, Field(ge=1, le=_MOST_TOKENS)]
_Book = Annotated[str, StringConstraints(max_length=512)]
_Stop = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class StreamOptions(_Strict):
    """How a stream is to be sent."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class TextPart(_Strict):
    """A part of a message."""

    _said = model_validator(mode="before")(_said)

    type: Literal["text"]
    text: str


class ChatMessage(_Strict):
    """One message of a chat."""

    _said = model_validator(mode="before")(_said)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[list[TextPart], BeforeValidator(_parts)]

    @property
    def text(self) -> str:
        """What the message says; parts are put on lines of their own."""
        return "\n".join(part.text for part in self.content)


class Body(_Strict):
    """What both routes take."""

    model: str = ""
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] = 1
    stop: Annotated[list[_Stop], Field(max_length=MOST_STOPS), BeforeValidator(_stops)] = []
    seed: Annotated[int, Field(ge=-_LARGEST_SEED - 1, le=_LARGEST_SEED)] | None = None
    max_tokens: _Tokens | None = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: _Book | None = None
    metadata: Annotated[dict[_Book, _Book], Field(max_length=16)] | None = None
    include_draft: bool = False
    max_draft_tokens: _Tokens | None = None
    max_summary_tokens: _Tokens | None = None
    gold: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = None


class ChatBody(Body):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: _Tokens | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] = 0


class CompletionBody(Body):
    """`POST /v1/completions`. Of several prompts in one request only one can be sent."""

    prompt: Annotated[str | list[int], PlainValidator(_one_prompt)]
    logprobs: int | None = None


_Body = TypeVar("_Body", bound=Body)


def read_chat(tree: Mapping[str, Any]) -> ChatBody:
    """Check the body of a chat request.

    Raises:
        RequestError: naming the first field that cannot be used.
    """
    body = _read(ChatBody, tree, "messages")
    if body.top_logprobs:
        raise _refused("top_logprobs", body.top_logprobs, "only the logprobs of the sampled tokens are known: send 0")
    return body


def read_completion(tree: Mapping[str, Any]) -> CompletionBody:
    """Check the body of a completion request.

    Raises:
        RequestError: naming the first field that cannot be used.
    """
    body = _read(CompletionBody, tree, "prompt")
    if body.logprobs:
        raise _refused("logprobs", body.logprobs, "only the logprobs of the sampled tokens are known: send 0")
    return body


def _read(kind: type[_Body], tree: Mapping[str, Any], required: str) -> _Body:
    known = kind.model_fields
    sent = {name: value for name, value in tree.items() if value is not None or name == required}
    for name in tree:
        if name not in known:
            _require_neutral(name, tree[name], known)
            sent.pop(name, None)
    try:
        body = kind.model_validate(sent)
    except ValidationError as error:
        raise _named(error) from None
    if body.stream_options is not None and not body.stream:
        raise _refused("stream_options", body.stream_options, "it is for streams alone: send stream true as well")
    if body.temperature is not None and 0.0 < body.temperature < _COLDEST:
        raise _refused("temperature", body.temperature, f"give 0 for the most likely tokens, or {_COLDEST} and more")
    return body


def _require_neutral(name: str, value: Any, known: Mapping[str, Any]) -> None:
    if name not in _NEUTRAL:
        shown = name[:_MOST_SHOWN]
        hint = did_you_mean(shown, [*known, *_NEUTRAL])
        raise RequestError(
            f"field {shown!r} is not known here{hint}: leave it out", param=shown, code="unknown_parameter"
        )
    neutral = any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in _NEUTRAL[name])
    if value is not None and not neutral:
        raise RequestError(
            f"{name} is not supported by this server: leave it out", param=name, code="unsupported_parameter"
        )


def _named(error: ValidationError) -> RequestError:
    """Name the field at fault. Of several the first counts."""
    first = error.errors(include_url=False, include_context=False)[0]
    steps = [f"[{step}]" if isinstance(step, int) else f".{step[:_MOST_SHOWN]}" for step in first["loc"]]
    param = "".join(steps).lstrip(".")
    if first["type"] == "missing":
        return RequestError(f"{param} is missing", param=param, code="missing_required_parameter")
    if first["type"] == "extra_forbidden":
        return RequestError(f"{param} is not known here: leave it out", param=param, code="unknown_parameter")
    return _refused(param, first["input"], first["msg"])


def _refused(param: str, value: Any, reason: str) -> RequestError:
    reason = reason[:1].lower() + reason[1:]
    return RequestError(f"{param} is {_shown(value)}: {reason}", param=param, code="invalid_value")


def _shown(value: Any) -> str:
    """Show a value in a message, however large or deep it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…")
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value)}"
    if isinstance(value, BaseModel):
        return "set"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)[:_MOST_SHOWN]
