r"""Where the program is in a completion. One rule, for every reader: verifiers, summaries and the report.

The visible text (after the reasoning) is read for fenced blocks: a line of three or more backticks or tildes opens one, a line of at
least as many of the same sign closes it, and one that is never closed reaches to the end. Blank blocks are no blocks. Then:

1. the last block tagged as Python (`python`, `python3`, `py`, `py3`, any case) is the program, whatever stands after it;
2. else the last block, of any other tag or none, that Python can parse and that does something (a bare word or number does not);
3. else the unfenced text, if it parses as a program: the whole of it, or what stands before the first fence, in either case from the
   first line that can start one (an answer that the prompt's own fence opened ends with a closing fence alone);
4. else the last block without a tag, so that the verdict can say why it is no program;
5. else there is no program.

Code on the line of the opening fence belongs to the program: only a word that can be a tag is taken for one. The fence's own
indentation (a block inside a list) is taken off every line.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

# A longer text without a tag is not parsed to see if it is a program, and a longer program is not run. Parsing is all that may be done to
# a model's text outside the sandbox, and even that takes time quadratic in the text at worst; compiling may take exponential time.
MAX_PARSED_CHARS = 20_000
MAX_CODE_CHARS = 50_000
# Python brings every name into its normal form, in time quadratic in a run of combining marks. Unicode's Stream-Safe Text Format
# (UAX 15) allows 30 in a row: no language comes near.
MAX_MARKS = 30

PYTHON_TAGS = frozenset({"python", "python3", "py", "py3"})
_FILE_NAME = "<model text>"

_FENCE = re.compile(r"^([ \t]{0,16})(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TAG = re.compile(r"\{?\.?([A-Za-z][A-Za-z0-9_+#.-]*)\}?")
_ATTRIBUTES = re.compile(r"(?:\{?\.?([A-Za-z][A-Za-z0-9_+#-]*)\}?)[ \t]+(?:[A-Za-z-]+=|\{).*")
_FIRST_LINE = re.compile(r"^(?:(?:def|class|import|from|async def)[ \t]|@\w|if __name__)", re.MULTILINE)
_MAX_STARTS = 8
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_ACTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)

# What Python has to say about a model's text goes nowhere: it is no warning about agon.
warnings.filterwarnings("ignore", module=re.escape(_FILE_NAME))


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
    for fence in _FENCE.finditer(text):
        if opened is None:
            if one_line := _one_line(fence):
                blocks.append(one_line)
            elif "`" not in fence[3] or fence[2][0] == "~":
                opened = fence
        elif fence[2].startswith(opened[2]) and not fence[3].strip():
            blocks.append(_block(text, opened, fence))
            opened = None
    if opened is not None:
        blocks.append(_block(text, opened, None))
    return blocks


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
    tagged = [block for block in code_blocks(visible) if block.is_python and block.code.strip()]
    return bool(tagged) and tagged[-1].is_closed


def is_program(text: str) -> bool:
    """Whether Python can parse a text, and it does something: words and numbers that stand alone do not."""
    tree = parse(text)
    return tree is not None and any(not _is_idle(statement) for statement in tree.body)


def parse(text: str, *, max_chars: int = MAX_PARSED_CHARS) -> ast.Module | None:
    """Return the syntax tree of a text, None if it has none or is too long or too deep to be parsed here."""
    return None if len(text) > max_chars else _parsed(text).tree


class _Parsed(NamedTuple):
    tree: ast.Module | None
    fault: str


def syntax_fault(text: str) -> str | None:
    """Return why Python cannot parse a text, None if it can."""
    return _parsed(text).fault or None


def _parsed(text: str) -> _Parsed:
    """Parse a model's text. Every text of a model that Python parses outside the sandbox goes through here."""
    if num_marks := _longest_run_of_marks(text):
        return _Parsed(None, f"{num_marks:,} combining marks in a row, more than {MAX_MARKS} are not read")
    try:
        return _Parsed(ast.parse(text, _FILE_NAME), "")
    except SyntaxError as error:
        return _Parsed(None, f"{error.msg} (line {error.lineno})" if error.lineno else error.msg)
    except (ValueError, OverflowError) as error:  # null bytes, half of a surrogate pair
        return _Parsed(None, f"not a text that Python reads ({error})")
    except (MemoryError, RecursionError):
        return _Parsed(None, "too deeply nested")


def _longest_run_of_marks(text: str) -> int:
    """How many combining marks stand in a row once the text is decomposed; 0 if never more than `MAX_MARKS`."""
    longest = 0
    for part in () if text.isascii() else _NON_ASCII.findall(text):
        run = 0
        for character in part:
            leading, trailing, is_mark = _marks(character)
            longest = max(longest, run + leading)
            run = run + leading if is_mark else trailing
    return longest if longest > MAX_MARKS else 0


class _Marks(NamedTuple):
    leading: int
    trailing: int
    is_mark: bool


@lru_cache(maxsize=4096)
def _marks(character: str) -> _Marks:
    """The combining marks of one character: those that it decomposes into at its start and its end, and whether it is no more."""
    classes = [unicodedata.combining(part) for part in unicodedata.normalize("NFKD", character)]
    bases = [index for index, kind in enumerate(classes) if kind == 0]
    if not bases:
        return _Marks(len(classes), len(classes), is_mark=True)
    return _Marks(bases[0], len(classes) - 1 - bases[-1], is_mark=False)


def _is_idle(statement: ast.stmt) -> bool:
    """Whether a statement only names or annotates something: prose, data and `key: value` lines may parse as such."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    return isinstance(statement, ast.Expr) and not any(isinstance(node, _ACTS) for node in ast.walk(statement))


def _program_block(blocks: list[Block]) -> Block | None:
    filled = [block for block in blocks if block.code.strip()]
    tagged = [block for block in filled if block.is_python]
    if tagged:
        return tagged[-1]
    return next((block for block in reversed(filled) if is_program(block.code)), None)


class _Bare(NamedTuple):
    start: int
    code: str


def _bare_code(visible: str) -> _Bare | None:
    fence = _FENCE.search(visible)
    for text in dict.fromkeys((visible[: fence.start()] if fence else visible, _without_fences(visible))):
        starts = [match.start() for match in islice(_FIRST_LINE.finditer(text), _MAX_STARTS)]
        for start in dict.fromkeys((0, *starts)):
            if is_program(text[start:]):
                return _Bare(start, text[start:])
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
    body = text[min(opened.end() + 1, end) : end]
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
