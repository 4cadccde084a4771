r"""Tell which gold answers can never be met, before anything is trained on them.

A gold answer is refused, with the reason, when

* nothing is left of it without spaces, delimiters and punctuation (an empty text, `$$`, `?`, `...`);
* it is a stand-in for an answer and none itself (`see figure`, `n/a`, `None`, `nan`, `proof`, `answers may vary`, an image);
* it is broken: brackets or environments do not match, or it ends in an operator (`\frac{1}{`, `3 +`);
* it is elementary (digits, letters, fractions, roots, signs) and still no formula that can be read as a whole;
* it is a sentence of more than `MAX_WORDS` words, which nothing but the very same words would meet, or over-long.

Words (`Evelyn`, `yes`, `\text{no solution}`, `(B)`) and formulas beyond the grammar (`\mathbb{Z}_8`) are legal: they are compared as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agon.answers import has_balanced_braces
from agon.config import VerifierSettings
from agon.numerals import read_number
from agon.verifiers.math import open_math_pool
from agon.verifiers.spelling import MAX_CHARS, is_words, plain_spelling

MAX_WORDS = 12

_STAND_IN = re.compile(
    r"(?:please )?(?:see|refer to|as shown in|shown in|given in)\b.*|n/?a|nan|null|tbd|todo|unknown|no answer|not available|(?:left|omitted)\b.*"
    r"|(?:the )?(?:figure|diagram|graph|table|picture|image|proof|answer|solution|explanation)(?: (?:above|below|omitted|\d{1,3}))?"
    r"|(?:the )?(?:answers?|solutions?|results?|responses?) (?:may|might|will|can|could) (?:vary|differ)|(?:various|many) answers"
    r"|\\includegraphics.*|!\s?\[.*|<img\b.*|(?:https?://|www\.).*|\S{1,80}\.(?:png|jpe?g|gif|svg|pdf)",
    re.IGNORECASE | re.DOTALL,
)
_BRACKETED = re.compile(r"[\[(<{]\s?([^\[\](){}<>]*?)\s?[\])>}][.!]?")
_NOTHING = re.compile(r"[\s\W_]*")
_SIGNIFICANT = re.compile(r"\\(?:infty|emptyset|varnothing|pi|aleph)|[∞∅]")
_ENDS_OPEN = re.compile(r"(?:[-+/^_=<>]|(?<=\d)\s?\*|\\(?:cdot|times|div|le|ge|pm|frac|sqrt|cup|cap|in|text))\s?\Z")
_ELEMENTARY = re.compile(
    r"(?:[0-9A-Za-z\s+/^(){}.,=-]|\\(?:[dt]?frac|sqrt|pi|cdot|times|left|right|[,;! ])(?![A-Za-z]))*"
)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s?\{([a-z]{1,20}\*?)\}")
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}")


def unreadable_golds(golds: Sequence[str], settings: VerifierSettings | None = None) -> list[str | None]:
    """Return for each gold answer why it cannot be met, None if it can. What needs the grammar is read in processes that can be killed.

    Only what the grammar refuses is named: a time-out or a failure says something about the machine, and another start of the same
    run would come to another set of problems.
    """
    reasons: dict[str, str | None] = {gold: _reason(gold) for gold in dict.fromkeys(golds)}
    doubtful = [gold for gold, reason in reasons.items() if reason is None and _must_be_read(gold)]
    if doubtful:
        pool = open_math_pool(settings or VerifierSettings())
        try:
            replies = pool.ask([(gold, None) for gold in doubtful])
        finally:
            pool.close()
        reasons |= {
            gold: reply.reason for gold, reply in zip(doubtful, replies, strict=True) if reply.outcome == "unparsed"
        }
    return [reasons[gold] for gold in golds]


def _reason(gold: str) -> str | None:
    """Why a text is no answer, as far as that can be told without a grammar."""
    if len(gold) > MAX_CHARS:
        return f"has {len(gold)} characters; more than {MAX_CHARS} are not read"
    plain = plain_spelling(gold)
    if _NOTHING.fullmatch(plain) and not _SIGNIFICANT.search(gold):
        return "is empty"
    inner = bracketed[1] if (bracketed := _BRACKETED.fullmatch(plain)) and len(bracketed[1]) > 2 else plain
    if any(_STAND_IN.fullmatch(part.strip()) for part in (gold, plain, inner)) or plain == "None":
        return "stands in for an answer and is none"
    if not _is_matched(gold):
        return "is broken: its brackets do not match"
    if _ENDS_OPEN.search(plain) and not is_words(gold):
        return "is broken: it ends in an operator"
    if len(_WORD.findall(plain)) > MAX_WORDS:
        return f"is a sentence of more than {MAX_WORDS} words, which no answer will repeat"
    return None


def _must_be_read(gold: str) -> bool:
    """Whether a gold answer is a formula that has no right to be beyond the grammar."""
    return not is_words(gold) and read_number(gold) is None and _ELEMENTARY.fullmatch(plain_spelling(gold)) is not None


def _is_matched(text: str) -> bool:
    if not has_balanced_braces(text):
        return False
    environments: list[str] = []
    for mark in _ENVIRONMENT.finditer(text):
        if mark[1] == "begin":
            environments.append(mark[2])
        elif not environments or environments.pop() != mark[2]:
            return False
    # half-open intervals: a round bracket may close a square one
    plain = re.sub(r"\\[{}]", "", text)
    openings, closings = len(re.findall(r"[(\[]", plain)), len(re.findall(r"[)\]]", plain))
    return not environments and openings == closings
