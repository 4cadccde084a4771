"""From sampled ids to the text that people, checkers and challengers read."""

from __future__ import annotations

from collections.abc import Sequence
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

    def read(self, token_ids: Sequence[int], *, has_stop: bool) -> str:
        """Return the text of a completion; with `has_stop` its last token ended it and is not part of the text."""
        if self._tokenizer is None:
            return ""
        ids = token_ids[:-1] if has_stop else token_ids
        kept = [token for token in ids if token not in self._hidden]
        return self._tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)
