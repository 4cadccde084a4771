r"""Take the final answer out of a text without touching the rest.

Taken out, each replaced by a fixed mark:

* every answer block and every box;
* the value claimed after an answer phrase ("the answer is …", "Final answer: …", "#### …"), whatever it is;
* the answer itself, as a whole token in any usual spelling, where the text claims it: in a concluding sentence ("Therefore …", the
  last one), in bold, alone on its line, and at the right-hand end of an equation that ends its sentence ("= 42.") or is the last
  one with that result.

Everywhere else a token that equals the answer stays: a 2 that is among the given numbers is no answer. What stays is counted
(`is_readable`), not deleted. `without_withheld` then leaves out the sentences that show the mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from agon.answers import ANSWER_CLOSE, answer_spans, extract_answer, unwrap_boxes
from agon.numerals import normalize_spelling, only_number, read_number
from agon.records import AnswerStyle

WITHHELD = "[withheld]"

MAX_ANSWER_CHARS = 200

_ANSWER_PHRASE = re.compile(
    r"(?:\banswers?\b(?:\s+(?:to|for)\s[^.\n:=]{0,60}?)?\s{0,3}(?:\*{0,2}\s?(?:is|are|:|=|equals|would be|will be|must be|should be)\s?\*{0,2}){1,2}"
    r"|^[ \t*]{0,4}A:"
    r"|\#\#\#\#)\s{0,3}:?\s{0,3}",
    re.IGNORECASE | re.MULTILINE,
)
# The value after such a phrase: a formula between delimiters, bold text, or a number with its signs.
_CLAIMED_VALUE = re.compile(
    r"(?:(?:exactly|approximately|about|simply|just|therefore|thus|indeed)\s)?"
    r"(?:\$\$[^$\n]{1,200}\$\$|\$[^$\n]{1,200}\$|\\\([^\n]{1,200}?\\\)|\\\[[^\]]{1,200}?\\\]|\*\*[^*\n]{1,60}\*\*"
    r"|\*{0,2}[-+−]?[$€£]?[-+−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+)?\s?(?:\\?%)?\*{0,2})",
    re.IGNORECASE,
)
# Neither begun nor given up within a run of signs: a run that ends no sentence would be read again from each of them.
_SENTENCE_END = re.compile(r"(?<![.!?])[.!?]++(?=\s|\Z)|\n+")
# Chinese and Japanese put no space after a full stop.
_WHOLE_SENTENCE_END = re.compile(rf"{_SENTENCE_END.pattern}|[。！？]+")
# What has the end of a sentence and a space after it, and yet is its front.
_LIST_NUMBER = re.compile(r"[\s>*#-]{0,12}(?:step\s)?\d{1,3}\.", re.IGNORECASE)
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|e\.g|i\.e|vs|approx)\.\Z", re.IGNORECASE)
_FACTORIAL_OR_DOTS = re.compile(r"(?:(?<=[\w)}])!|(?<=\.)\.)(?=[ \t]+[^\sA-Z])")
_CONCLUDING = re.compile(
    r"\s*(?:[-*#>\d.)]{1,4}\s+)?\**(?:(?:and|but)\s+)?(?:therefore|thus|hence|so|consequently|finally|in conclusion|in total|in summary|"
    r"altogether|overall|as a result|we conclude|it follows|this means|that means|this gives|final|result|conclusion|∴|\\therefore)"
    r"(?![a-z])|.{0,400}\b(?:the|our|my|final|correct)\s{1,3}answer\b",
    re.IGNORECASE | re.DOTALL,
)
_EQUALS_BEFORE = re.compile(r"(?:=|≈|\\approx|\\equiv)\s{0,3}(?:\\?\$|€|£)?\s{0,2}\Z")
_SENTENCE_END_AFTER = re.compile(
    r"\s{0,2}(?:\\?%)?\s{0,2}(?:\$|\\\)|\\\]|\}|\*\*)*\s{0,2}(?:[.;!?]?[ \t]*(?:\n|\Z)|[.;!?]\s)"
)
_OPERATOR_AFTER = re.compile(r"\s{0,2}(?:[-+*/^=×·<>(,]|\\(?:times|cdot|div|pm|le|ge|ne))")
_BOLD = re.compile(r"\*\*[^*\n]{1,80}\*\*")
# The first two are no signs of a formula: `\\[4pt]` ends a line, `\$` is a price. The columns of a table and the language of a program
# belong to their signs. `2**3` is not bold.
_PAIRED_SIGN = re.compile(
    r"\\\\|\\\$|(?P<sign>\\[\[\]()]|\$\$|\\(?:begin|end)\{\w{1,20}\*?\}|```|(?<!\w)\*\*(?=\S)|(?<=\S)\*\*(?!\w))"
    r"(?:(?<=\})\{[^{}\n]{0,40}\}|(?<=```)\w{1,20})?"
)
_ITS_OWN_CLOSING = frozenset({"$$", "```", "**"})
_OPENING_SIGN = {r"\]": r"\[", r"\)": r"\("}
_LINE_END = re.compile(r"\n+")
_BLANK_LINES = re.compile(r"\n(?:[ \t\r]*\n){2,}")
# The heading or the words before an answer, when it was all that followed.
_LONE_ANNOUNCEMENT = re.compile(
    r"(?:(?:\A|\n|(?<=[.!?]) )(?:[^\n.!?]{0,80}\banswer(?: is)?\s?:|[#* ]{0,8}(?:final )?answer)[:*\s]*){1,3}\Z",
    re.IGNORECASE,
)
_DECORATION = re.compile(r"[\s$*_.:#>()\\\[\]-]+")


class Withheld(NamedTuple):
    """The text without its answer, how many spans were taken out, and the answer (None: no answer was found)."""

    text: str
    num_spans: int
    answer: str | None


def withhold_answer(text: str, style: AnswerStyle) -> Withheld:
    """Take the final answer out of a visible text. Without an answer mark, the last value claimed in words is the answer.

    Doing it twice changes nothing more.
    """
    answer = extract_answer(text, style) or extract_answer(text, "boxed") or extract_answer(text, "tags")
    marks = _marks(text)
    text = _replaced(text, marks)
    phrases = list(_phrases(text))
    if answer is None and phrases:
        answer = text[phrases[-1][0] : phrases[-1][1]].strip(" $*")
    text = _replaced(text, phrases)
    claims = _claims(text, answer)
    return Withheld(_replaced(text, claims), len(marks) + len(phrases) + len(claims), answer)


def without_withheld(text: str) -> str:
    """Leave out every sentence from which something was taken out.

    What stood around it alone goes too: the signs of a formula, program or bold text, and at the end an announcement of the answer.
    Where a part of a formula is left, both its signs stay. A text without the mark comes back as it is. A small base copies the mark
    into its own answer; what it does not read, it cannot copy.
    """
    if WITHHELD not in text:
        return text
    gone = bytearray(len(text))
    for start, end in _whole_sentences(text):
        if WITHHELD in text[start:end]:
            gone[start:end] = b"\1" * (end - start)
    _mend_pairs(text, gone)
    return _BLANK_LINES.sub("\n\n", _LONE_ANNOUNCEMENT.sub("", _joined(text, gone)))


def is_readable(text: str, answer: str | None) -> bool:
    """Tell whether the answer stands in the text as a whole token, in any usual spelling."""
    pattern = _spellings(answer)
    return pattern is not None and re.search(pattern, text) is not None


def _whole_sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end in [*(match.end() for match in _WHOLE_SENTENCE_END.finditer(text)), len(text)]:
        is_front = (
            _LIST_NUMBER.fullmatch(text, start, end)
            or _ABBREVIATION.search(text[max(start, end - 8) : end])
            or _FACTORIAL_OR_DOTS.match(text, max(end - 1, start))
        )
        if end == len(text) or not is_front:
            yield start, end
            start = end


def _mend_pairs(text: str, gone: bytearray) -> None:
    """Let both signs of a pair stay if something is still told between them, and neither if not. `gone` is 1 where a character is left out."""
    pairs = list(_paired_signs(text))
    tells = bytearray(character.isalnum() for character in text)
    for start, end in (sign for pair in pairs for sign in pair):
        tells[start:end] = bytes(end - start)
    told = [0, *accumulate(tells)]
    kept = [0, *accumulate(tell and not lost for tell, lost in zip(tells, gone, strict=True))]
    for (start, content_start), (content_end, end) in pairs:
        if kept[content_start] < kept[content_end]:
            if gone[start] != gone[content_end]:
                _keep(text, gone, *((start, content_start) if gone[start] else (content_end, end)))
        elif told[content_start] < told[content_end]:
            gone[start:end] = b"\1" * (end - start)


def _keep(text: str, gone: bytearray, start: int, end: int) -> None:
    """Keep a sign out of a lost sentence, and the end of its line."""
    gone[start:end] = bytes(end - start)
    next_kept = gone.find(0, end)
    line_end = _LINE_END.search(text, end, next_kept if next_kept >= 0 else len(text))
    if line_end:
        gone[line_end.start() : line_end.end()] = bytes(len(line_end.group()))


def _paired_signs(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the opening and the closing sign of each formula, environment, program and bold text stand."""
    opened: dict[str, list[tuple[int, int]]] = {}
    for found in _PAIRED_SIGN.finditer(text):
        sign = found["sign"]
        if sign is None:
            continue
        opening = _OPENING_SIGN.get(sign, sign.replace(r"\end", r"\begin"))
        waiting = opened.setdefault(opening, [])
        if sign == "**" and waiting and "\n" in text[waiting[-1][1] : found.start()]:
            waiting.clear()
        if waiting and (sign != opening or sign in _ITS_OWN_CLOSING):
            yield waiting.pop(), found.span()
        elif sign == opening:
            waiting.append(found.span())


def _joined(text: str, gone: bytearray) -> str:
    pieces: list[str] = []
    for run in re.finditer(rb"\0+", gone):
        piece = text[run.start() : run.end()]
        # A 4 and a 2 with a lost formula between them are no 42.
        pieces += [" ", piece] if pieces and pieces[-1][-1].isalnum() and piece[0].isalnum() else [piece]
    return "".join(pieces)


def _marks(text: str) -> list[tuple[int, int]]:
    stray = [match.span() for match in re.finditer(ANSWER_CLOSE, text)]
    return _merged([*answer_spans(text, "tags"), *answer_spans(text, "boxed"), *stray])


def _phrases(text: str) -> Iterator[tuple[int, int]]:
    found = list(_ANSWER_PHRASE.finditer(text))
    next_starts = [*(phrase.start() for phrase in found[1:]), len(text)]
    for phrase, next_start in zip(found, next_starts, strict=False):
        limit = phrase.end() + MAX_ANSWER_CHARS
        end = _SENTENCE_END.search(text, phrase.end(), limit)
        # What the next phrase claims is not this one's value.
        clause_end = min(end.start() if end else limit, next_start)
        last_side = text.rfind("=", phrase.end(), clause_end) + 1
        value = (
            _CLAIMED_VALUE.match(text, last_side + len(text[last_side:]) - len(text[last_side:].lstrip()))
            if last_side
            else None
        )
        value = value or _CLAIMED_VALUE.match(text, phrase.end())
        if value and WITHHELD not in value.group():
            yield value.span()


def _claims(text: str, answer: str | None) -> list[tuple[int, int]]:
    """Where the text claims the answer, other than by a mark or a phrase."""
    pattern = _spellings(answer)
    token = re.compile(pattern) if pattern else None
    tokens = [match.span() for match in token.finditer(text)] if token else []
    if token is None or not tokens:
        return []
    after_equals = [span for span in tokens if _EQUALS_BEFORE.search(text[max(span[0] - 16, 0) : span[0]])]
    results = [span for span in after_equals if not _OPERATOR_AFTER.match(text, span[1])]
    claims = {span for span in after_equals if _SENTENCE_END_AFTER.match(text, span[1])} | set(results[-1:])
    regions = [match.span() for match in _BOLD.finditer(text)] + list(_claim_sentences(text, token))
    return sorted(claims | set(_inside(tokens, regions)))


def _inside(spans: list[tuple[int, int]], regions: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those of the spans, given in order, that lie within one of the regions. Either may be thousands: a draft may repeat itself."""
    regions, number, furthest = sorted(regions), 0, -1
    for start, end in spans:
        while number < len(regions) and regions[number][0] <= start:
            furthest = max(furthest, regions[number][1])
            number += 1
        if end <= furthest:
            yield start, end


def _claim_sentences(text: str, token: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    sentences = list(_sentences(text))
    last = max((number for number, (start, end) in enumerate(sentences) if WITHHELD not in text[start:end]), default=-1)
    for number, (start, end) in enumerate(sentences):
        sentence = text[start:end]
        is_alone = len(sentence) <= 2 * MAX_ANSWER_CHARS and not _DECORATION.sub("", token.sub("", sentence))
        if number == last or is_alone or WITHHELD in sentence or _CONCLUDING.match(sentence):
            yield start, end


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        if _DECORATION.sub("", text[start:end].replace(WITHHELD, "")):
            yield start, end
        start = end


def _spellings(answer: str | None) -> str | None:
    """A pattern of the ways an answer may be written, bordered so that it is never part of a longer number or word."""
    if answer is None or not answer.strip() or len(answer) > MAX_ANSWER_CHARS:
        return None
    forms = {_flexible(answer), _flexible(normalize_spelling(answer))}
    number = read_number(answer) or only_number(answer)
    if number is not None:
        sign = r"[-−–]\s{0,2}" if number.value < 0 else ""
        forms |= {sign + form for form in _number_forms(abs(number.value.numerator), number.value.denominator)}
    ordered = sorted((form for form in forms if form), key=len, reverse=True)
    if not ordered:
        return None
    any_case = "i" if re.fullmatch(r"[A-Za-z]{2,}", normalize_spelling(answer)) else ""
    return (
        rf"(?<![A-Za-z\d])(?<!\d\.)(?<!\d,(?=\d\d\d(?!\d)))(?{any_case}:{'|'.join(ordered)})"
        r"(?![A-Za-z\d])(?!\.\d)(?!,\d\d\d(?!\d))"
    )


def _number_forms(numerator: int, denominator: int) -> list[str]:
    if denominator == 1:
        return [rf"{form}(?:\.0+)?" for form in (str(numerator), _grouped(numerator))]
    ratio = [rf"{numerator}\s?/\s?{denominator}"]
    ratio += [rf"\\[dtc]?frac\s?\{{?\s?{numerator}\s?\}}?\s?\{{?\s?{denominator}\s?\}}?"]
    return ratio + [re.escape(decimal) for decimal in _decimals(numerator, denominator)]


def _flexible(answer: str) -> str:
    """The answer as written, with any spacing between its parts."""
    core = unwrap_boxes(answer).strip().strip("$").strip().rstrip(".")
    parts = re.findall(r"\\[A-Za-z]+|\\.|\d+|[A-Za-z]+|[^\sA-Za-z\d\\]", core)
    return r"\s{0,2}".join(re.escape(part) for part in parts)


def _grouped(value: int) -> str:
    first, *rest = f"{value:,}".split(",")
    return first + "".join(rf"(?:,|\{{,\}}|\\,|,\\!|\u202f|\u2009)\s?{group}" for group in rest)


def _decimals(numerator: int, denominator: int) -> list[str]:
    scaled = numerator * 10**6
    if scaled % denominator:
        return []
    whole, rest = divmod(scaled // denominator, 10**6)
    digits = f"{rest:06d}".rstrip("0")
    return [f"{whole}.{digits}"] + ([f".{digits}"] if whole == 0 else [])


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces += [text[position:start], WITHHELD]
        position = end
    return "".join(pieces) + text[position:]
