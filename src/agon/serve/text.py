"""The text of a completion while its tokens come in, never with half a character."""

from __future__ import annotations

from collections.abc import Sequence

from agon.errors import EngineError
from agon.rollout.text import TextReader

# What a decoder puts where bytes are no character, or not yet.
_BROKEN = "\ufffd"

# Tokens before the new ones that are read with them: decoders treat the first token of a text differently (no space before it).
_NUM_ANCHORS = 8

# More tokens than an unfinished character can have: then some of what cannot be read will never be.
_LONG_UNREAD = 16
_MAX_UNFINISHED_BYTES = 3


class TextStream:
    """Turn tokens into pieces of text that add up to what `TextReader.read` makes of all of them.

    Characters whose tokens are not all there are held back. New tokens are read together with a few before them, so that each costs the
    same however long the text is.
    """

    def __init__(self, reader: TextReader) -> None:
        self.num_characters = 0
        self._reader = reader
        self._given: list[str] = []
        self._anchor: list[int] = []
        self._num_anchor_characters = 0
        # Tokens whose text is not all given, the characters of it that are, and the bytes after them.
        self._unread: list[int] = []
        self._num_unread_given = 0
        self._bytes: list[int] = []

    def add(self, token_ids: Sequence[int]) -> str:
        """Take more tokens, the stop token not among them, and return the text that is finished with them."""
        for token in self._reader.kept(token_ids):
            # A row of byte tokens is read as a whole: one more byte can turn all of its characters into broken ones.
            if token in self._reader.byte_ids:
                self._bytes.append(token)
            else:
                self._unread += [*self._bytes, token]
                self._bytes.clear()
        return self._give(self._read()) if self._unread else ""

    def finish(self, text: str) -> str:
        """Return what is left of the completion's `text`.

        Raises:
            EngineError: what was given is no beginning of it.
        """
        given = "".join(self._given)
        if not text.startswith(given):
            raise EngineError(
                f"the text of a completion ends with {text[-40:]!r}, but while it grew it was read as {given[-40:]!r}: "
                "this tokenizer cannot be streamed, so ask for the whole text at once"
            )
        return self._give(text[len(given) :])

    def _give(self, text: str) -> str:
        if text:
            self._given.append(text)
            self.num_characters += len(text)
        return text

    def _read(self) -> str:
        text = self._text_of(self._unread)
        finished = text.rstrip(_BROKEN) if not self._reader.byte_ids else text
        if len(finished) == len(text):
            return self._advance(len(self._unread), text)
        if len(self._unread) > _LONG_UNREAD:
            for count in range(1, _MAX_UNFINISHED_BYTES + 1):
                head, tail = self._unread[:-count], self._unread[-count:]
                read = self._text_of(head)
                # Only if no character is cut there, do both halves read as they do together.
                if read + self._reader.read(tail, has_stop=False) == text:
                    return self._advance(len(head), read)
        fresh = finished[self._num_unread_given :]
        self._num_unread_given += len(fresh)
        return fresh

    def _text_of(self, unread: list[int]) -> str:
        return self._reader.read(self._anchor + unread, has_stop=False)[self._num_anchor_characters :]

    def _advance(self, count: int, text: str) -> str:
        """Take the first tokens as read, with all of their text, and return what was not yet given of it."""
        fresh = text[self._num_unread_given :]
        self._anchor = (self._anchor + self._unread[:count])[-_NUM_ANCHORS:]
        self._num_anchor_characters = len(self._reader.read(self._anchor, has_stop=False))
        self._unread = self._unread[count:]
        self._num_unread_given = 0
        return fresh
