r"""Where the program is in a completion. One rule, for every reader: verifiers, summaries and the report.

The visible text (after the reasoning) is read for fenced blocks: a line of three or more backticks or tildes opens one, a line of at
least as many of the same sign closes it, and one that is never closed reaches to the end. Blank blocks are no blocks. Then:

1. the last block tagged as Python (`python`, `python3`, `py`, `py3`, any case) is the program, whatever stands after it;
2. else the last block, of any other tag or none, that Python can parse and that does something (a bare word or number does not);
3. else the unfenced text, if it parses as a program: the whole of it, or what stands before the first fence, in either case from the
   first line that can start one (an answer that the prompt's own fence opened ends with a closing fence alone); or if it is the
   body of a function, indented, as it goes on where a question ends;
4. else the last block without a tag, so that the verdict can say why it is no program;
5. else there is no program.

In 1 and 2 a block does not count that defines no function and no class, and takes one from an earlier such block: it reads the name
without binding it, or imports it from a module that is not Python's own. It cannot stand alone: it shows how the program is used.

Code on the line of the opening fence belongs to the program: only a word that can be a tag is taken for one. The fence's own
indentation (a block inside a list) is taken off every line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from agon.code_parse import defined_names, is_body, is_program, only_tries_out, parse

PYTHON_TAGS = frozenset({"python", "python3", "py", "py3"})

# Some texts start with this mark of their encoding, which Python takes for a character of the program.
_BYTE_ORDER_MARK = "\ufeff"
_FENCE = re.compile(r"^\ufeff?([ \t]{0,16})(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TAG = re.compile(r"\{?\.?([A-Za-z][A-Za-z0-9_+#.-]*)\}?")
_ATTRIBUTES = re.compile(r"(?:\{?\.?([A-Za-z][A-Za-z0-9_+#-]*)\}?)[ \t]+(?:[A-Za-z-]+=|\{).*")
_FIRST_LINE = re.compile(r"^(?:(?:def|class|import|from|async def)[ \t]|@\w|if __name__)", re.MULTILINE)
_MAX_STARTS = 8
_MAX_TRIED_OUT = 8
_MAX_LATER_ENDS = 8
# A comment or a string of Python; the second group is the end of one in triple quotes.
_STRING = re.compile(
    r"""#[^\n]*|(\"{3}|'{3})(?:\\.|(?!\1)[^\\])*(\1)?|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""", re.DOTALL
)


class Block(NamedTuple):
    """A fenced block: where it stands with its fences, its tag in lower case (may be empty), its code, and if it was closed."""

    start: int
    end: int
    tag: str
    code: str
    is_closed: bool

    @property
    def is_python(self) -> bool:
        """Whether the tag says Python."""
        return self.tag in PYTHON_TAGS


def code_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a text, in order, blank ones too."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    fences = list(_FENCE.finditer(text))
    tries = _MAX_LATER_ENDS
    for number, fence in enumerate(fences):
        if blocks and fence.start() < blocks[-1].end:
            continue
        if opened is None:
            if one_line := _one_line(fence):
                blocks.append(one_line)
            elif "`" not in fence[3] or fence[2][0] == "~":
                opened = fence
        elif _closes(fence, opened):
            block = _block(text, opened, fence)
            if tries and _ends_inside_string(block):
                later = [other for other in fences[number + 1 : number + 1 + tries] if _closes(other, opened)]
                tries -= len(later)
                block = _longer_block(text, opened, later) or block
            blocks.append(block)
            opened = None
    if opened is not None:
        blocks.append(_block(text, opened, None))
    return blocks


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return fence[2].startswith(opened[2]) and not fence[3].strip()


def _ends_inside_string(block: Block) -> bool:
    """Whether a Python block ends within triple quotes: the fence that ended it may belong to a docstring."""
    last = None
    if block.is_python or not block.tag:
        for last in _STRING.finditer(block.code):  # noqa: B007 - the last one is wanted
            pass
    return last is not None and last[1] is not None and last[2] is None


def _longer_block(text: str, opened: re.Match[str], later: Iterable[re.Match[str]]) -> Block | None:
    """The block up to the first later fence with which Python can parse it."""
    for fence in later:
        block = _block(text, opened, fence)
        if not _ends_inside_string(block) and parse(block.code) is not None:
            return block
    return None


def extract_code(visible: str) -> str | None:
    """Return the program of a visible text, None if there is none. A program comes back as it is."""
    blocks = [block for block in code_blocks(visible) if block.code.strip()]
    chosen = _program_block(blocks)
    if chosen is not None:
        return chosen.code
    bare = _bare_code(visible)
    if bare is not None:
        return bare.code
    untagged = [block for block in blocks if not block.tag]
    return untagged[-1].code if untagged else None


def code_spans(visible: str) -> list[tuple[int, int]]:
    """Return (start, end) of everything that may be code: the fenced blocks, or from unfenced code to the end."""
    blocks = code_blocks(visible)
    bare = None if _program_block(blocks) else _bare_code(visible)
    fenced = [(block.start, block.end) for block in blocks]
    return fenced if bare is None else [(bare.start, len(visible))]


def has_program_form(visible: str) -> bool:
    """Whether the program stands as a prompt asks for it: in a closed block that is tagged as Python."""
    chosen = _program_block(code_blocks(visible))
    return chosen is not None and chosen.is_python and chosen.is_closed


def _program_block(blocks: list[Block]) -> Block | None:
    filled = [block for block in blocks if block.code.strip()]
    tagged = [block for block in filled if block.is_python]
    return _last_program(tagged or [block for block in filled if is_program(block.code)])


def _last_program(blocks: Sequence[Block]) -> Block | None:
    """The last block, but for those that only try out what one before them defines."""
    left = list(blocks[-_MAX_TRIED_OUT:])
    defined = [defined_names(block.code) for block in left[:-1]]
    while defined and only_tries_out(left[-1].code, frozenset().union(*defined)):
        left.pop()
        defined.pop()
    return left[-1] if left else None


class _Bare(NamedTuple):
    start: int
    code: str


def _bare_code(visible: str) -> _Bare | None:
    fence = _FENCE.search(visible)
    for text in dict.fromkeys((visible[: fence.start()] if fence else visible, _without_fences(visible))):
        starts = [match.start() for match in islice(_FIRST_LINE.finditer(text), _MAX_STARTS)]
        for start in dict.fromkeys((0, *starts)):
            code = text[start:].removeprefix(_BYTE_ORDER_MARK)
            if is_program(code) or (start == 0 and is_body(code)):
                return _Bare(start, code)
    return None


def _without_fences(text: str) -> str:
    """The text with every fence blanked out, at its old length: positions stay what they are."""
    return _FENCE.sub(lambda fence: " " * len(fence.group()), text)


def _one_line(fence: re.Match[str]) -> Block | None:
    """A whole block on one line: ```python print(1)```."""
    rest = fence[3].strip()
    if fence[2][0] == "~" or not rest.endswith(fence[2]) or rest == fence[2]:
        return None
    first, space, code = rest.removesuffix(fence[2]).strip().partition(" ")
    is_tagged = bool(space) and first.lower() in PYTHON_TAGS
    return Block(
        fence.start(),
        fence.end(),
        first.lower() if is_tagged else "",
        (code if is_tagged else f"{first}{space}{code}") + "\n",
        is_closed=True,
    )


def _block(text: str, opened: re.Match[str], closed: re.Match[str] | None) -> Block:
    tag, first_line = _tag(opened[3])
    end = closed.start() if closed else len(text)
    body = text[min(opened.end() + 1, end) : end].removeprefix(_BYTE_ORDER_MARK)
    indent = opened[1]
    if indent:
        body = re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", body, flags=re.MULTILINE)
    return Block(
        opened.start(), closed.end() if closed else len(text), tag, first_line + body, is_closed=closed is not None
    )


def _tag(info: str) -> tuple[str, str]:
    """The tag of an opening fence's line, and the code on it."""
    info = info.strip()
    match = _TAG.fullmatch(info) or _ATTRIBUTES.fullmatch(info)
    if match:
        return match[1].lower(), ""
    first, _, rest = info.partition(" ")
    if first.lower() in PYTHON_TAGS and rest:
        return first.lower(), rest.strip() + "\n"
    return "", info + "\n" if info else ""
