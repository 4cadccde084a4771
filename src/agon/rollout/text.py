"""From sampled ids to the text that people, checkers and challengers read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

# Answers are marked by these, so they stay in the text even where a tokenizer calls them special.
_ANSWER_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


class TextReader:
    """Decodes completions: special tokens are left out, the tags of an answer are not. Without a tokenizer texts are empty."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._hidden = frozenset[int]()
        if tokenizer is not None:
            tags = {tokenizer.convert_tokens_to_ids(tag) for tag in _ANSWER_TAGS}
            self._hidden = frozenset(tokenizer.all_special_ids) - tags

    def kept(self, token_ids: Sequence[int]) -> list[int]:
        """Return the tokens that have text: all but the special ones."""
        return [token for token in token_ids if token not in self._hidden]

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Tokens that stand for one byte each, and become characters only with their neighbours; none where the tokenizer has other means."""
        if self._tokenizer is None:
            return frozenset()
        ids = {self._tokenizer.convert_tokens_to_ids(f"<0x{byte:02X}>") for byte in range(256)}
        # A tokenizer without them gives None or its unknown token for each.
        return frozenset(ids) if len(ids) == 256 else frozenset()

    def read(self, token_ids: Sequence[int], *, has_stop: bool) -> str:
        """Return the text of a completion; with `has_stop` its last token ended it and is not part of the text."""
        if self._tokenizer is None:
            return ""
        kept = self.kept(token_ids[:-1] if has_stop else token_ids)
        return self._tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
