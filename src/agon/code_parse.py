"""What Python makes of a model's text: the one place in which such a text is parsed outside the sandbox. Nothing here compiles or runs it."""

from __future__ import annotations

import ast
import builtins
import re
import sys
import unicodedata
import warnings
from functools import lru_cache
from typing import NamedTuple

# A longer text without a tag is not parsed to see if it is a program, and a longer program is not run. Parsing is all that may be done to
# a model's text outside the sandbox, and even that takes time quadratic in the text at worst; compiling may take exponential time.
MAX_PARSED_CHARS = 20_000
MAX_CODE_CHARS = 50_000
# Python brings every name into its normal form, in time quadratic in a run of combining marks. Unicode's Stream-Safe Text Format
# (UAX 15) allows 30 in a row: no language comes near.
MAX_MARKS = 30

_FILE_NAME = "<model text>"
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_INDENTED = re.compile(r"(?:[ \t]*\n)*[ \t]+\S")
_BUILTIN = frozenset(dir(builtins))
_ACTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)

# What Python has to say about a model's text goes nowhere: it is no warning about agon.
warnings.filterwarnings("ignore", module=re.escape(_FILE_NAME))


def is_program(text: str) -> bool:
    """Whether Python can parse a text, and it does something: words and numbers that stand alone do not."""
    tree = parse(text)
    return tree is not None and any(not _is_idle(statement) for statement in tree.body)


def is_body(text: str) -> bool:
    """Whether a text is the body of a function that does something, indented as it stands below the function's head."""
    if not _INDENTED.match(text):
        return False
    tree = parse(f"def f():\n{text}")
    function = tree.body[0] if tree else None
    return isinstance(function, ast.FunctionDef) and any(not _is_idle(statement) for statement in function.body)


def defined_names(text: str) -> frozenset[str]:
    """Return the functions and classes that a program defines at its top level; none if it cannot be parsed."""
    names: list[str] = []
    tree = parse(text)
    for statement in tree.body if tree else ():
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets, value=ast.Lambda()):
                names += [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                pass
    return frozenset(names)


def only_tries_out(text: str, names: frozenset[str]) -> bool:
    """Whether a program defines no function and no class, and takes one of `names` from elsewhere.

    It does so by reading a name that it does not bind, or by importing it from a module that is not Python's own. A name of
    Python's own does not count: without the other program it still means something.
    """
    tree = parse(text)
    if tree is None or not names:
        return False
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.ImportFrom(module=module, names=items) if not _is_pythons_own(module):
                read.update(item.name for item in items)
            case ast.Import(names=items) | ast.ImportFrom(names=items):
                bound.update((item.asname or item.name).partition(".")[0] for item in items)
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case _:
                pass
    return not names.isdisjoint(read - bound - _BUILTIN)


def _is_pythons_own(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in sys.stdlib_module_names


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
