"""The tokens of one request, as they come from an engine, made into pieces of text for a client."""

from __future__ import annotations

from agon.records import Completion
from agon.rollout.text import TextReader
from agon.serve.records import Piece
from agon.serve.text import TextStream


class PieceMaker:
    """Gather tokens and let a piece go at most every `pause_s`: the first that has text at once, and the last.

    With `has_ends` each token is read by itself, so that a stop string can be told from the tokens before it.

    Units: seconds, of whatever clock `now` is read from.
    """

    def __init__(self, reader: TextReader, *, pause_s: float, has_ends: bool) -> None:
        self._text = TextStream(reader)
        self._pause_s = pause_s
        self._has_ends = has_ends
        self._next_at = float("-inf")
        self._token_ids: list[int] = []
        self._logprobs: list[float] = []
        # Of the tokens above, those that are not in the text yet; of the others, where they end.
        self._num_read = 0
        self._token_ends: list[int] = []

    def grow(
        self, token_ids: list[int], logprobs: list[float], now: float, *, least_pause_s: float = 0.0
    ) -> Piece | None:
        """Take tokens, and return a piece if it is time for one and there is text. The next one then waits `least_pause_s` at least."""
        self._token_ids += token_ids
        self._logprobs += logprobs
        if now < self._next_at:
            return None
        text = self._read(len(self._token_ids))
        if not text:
            return None
        self._next_at = now + max(self._pause_s, least_pause_s)
        return self._piece(text)

    def end(self, token_ids: list[int], logprobs: list[float], completion: Completion) -> Piece:
        """Take the last tokens, and return the last piece.

        Raises:
            EngineError: the tokenizer's texts cannot be told piece by piece.
        """
        self._token_ids += token_ids
        self._logprobs += logprobs
        text = self._read(len(self._token_ids) - (completion.stop_reason == "stop")) if self._has_ends else ""
        text += self._text.finish(completion.text)
        if self._has_ends:
            # The last token with text has what was unfinished, and the stop token nothing.
            self._token_ends[-1:] = [len(completion.text)] * min(1, len(self._token_ends))
            self._token_ends += [len(completion.text)] * (len(self._token_ids) - len(self._token_ends))
        return self._piece(text)

    def _read(self, until: int) -> str:
        fresh, self._num_read = self._token_ids[self._num_read : until], until
        if not self._has_ends:
            return self._text.add(fresh)
        text = ""
        for token in fresh:
            text += self._text.add([token])
            self._token_ends.append(self._text.num_characters)
        return text

    def _piece(self, text: str) -> Piece:
        piece = Piece(text, tuple(self._token_ids), tuple(self._logprobs), token_ends=tuple(self._token_ends))
        self._token_ids, self._logprobs, self._token_ends, self._num_read = [], [], [], 0
        return piece
