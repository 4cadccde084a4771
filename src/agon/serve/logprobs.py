"""Logprobs of sampled tokens, each with the text that was finished by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agon.serve.models import Vocabulary

# What OpenAI gives for a token of no probability: JSON has no infinity.
_LEAST = -9999.0


class TokenTexts:
    """Reads tokens one after another: the texts of all of them, joined, are the text, or begin with it where a stop string cut a token.

    A character of several tokens belongs to the last of them; stop tokens and other special ones have no text.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._text = vocabulary.open_text()
        self._stop_ids = vocabulary.stop_ids

    def add(self, token_ids: Sequence[int]) -> list[str]:
        """Return the texts of further tokens."""
        return ["" if token in self._stop_ids else self._text.add([token]) for token in token_ids]

    def all_of(self, token_ids: Sequence[int], text: str) -> list[str]:
        """Return the texts of all tokens of a whole text, its last character unfinished or not."""
        texts = self.add(token_ids)
        if texts:
            texts[-1] += text[sum(map(len, texts)) :]
        return texts


def chat_logprobs(texts: Sequence[str], logprobs: Sequence[float]) -> dict[str, Any]:
    """Return logprobs as chats tell them."""
    return {
        "content": [
            {
                "token": text,
                "logprob": max(logprob, _LEAST),
                "bytes": list(text.encode()),
                "top_logprobs": [],
            }
            for text, logprob in zip(texts, logprobs, strict=True)
        ],
        "refusal": None,
    }


def completion_logprobs(texts: Sequence[str], logprobs: Sequence[float], *, offset: int) -> dict[str, Any]:
    """Return logprobs as completions tell them. `offset` is where the first token's text begins. Units: characters."""
    starts: list[int] = []
    for text in texts:
        starts.append(offset)
        offset += len(text)
    return {
        "tokens": list(texts),
        "token_logprobs": [max(logprob, _LEAST) for logprob in logprobs],
        "top_logprobs": None,
        "text_offset": starts,
    }
