"""Trusted test code, rewritten so that every assertion is counted and a failing one can say what it wanted.

`assert got == wanted` becomes a call that compares and reports both sides, any other `assert` one that reports its source. What is
asserted stays what it was. Test code is data of the task: it never meets the program's own code.
"""

from __future__ import annotations

import ast
import dis
import reprlib
import symtable
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, TracebackType
from typing import Any

EQUAL, HOLDS = "__agon_equal__", "__agon_holds__"
_FILE_NAME = "<tests>"
_IMPORTS = ("IMPORT_NAME", "IMPORT_FROM")
_GLOBAL_READS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
_MAX_REASON = 300

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80
_repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxdict = 8


def compile_tests(code: str) -> CodeType:
    """Compile test code with its assertions rewritten.

    Raises:
        SyntaxError: the code is no Python.
    """
    tree = _Rewriter().visit(ast.parse(code))
    return compile(ast.fix_missing_locations(tree), _FILE_NAME, "exec", dont_inherit=True)


def is_own_fault(error: BaseException, parts: Sequence[str]) -> bool:
    """Whether test code would have failed so whatever was returned to it: by an import of its own, or a name that no part of it binds.

    All else may be the doing of what a program returned: a name that a loop over it should have bound, a text that was evaluated.
    """
    frames = [frame for frame in _frames(error) if frame.tb_frame.f_code.co_filename == _FILE_NAME]
    if not frames:
        return False
    last = frames[-1]
    step = dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]]
    match error:
        case ImportError():
            return step in _IMPORTS
        case NameError(name=str(name)) if step in _GLOBAL_READS and last.tb_next is None:
            return not any(name in _global_names(symtable.symtable(part, _FILE_NAME, "exec")) for part in parts)
        case _:
            return False


def _frames(error: BaseException) -> Iterator[TracebackType]:
    frame = error.__traceback__
    while frame is not None:
        yield frame
        frame = frame.tb_next


def _global_names(table: symtable.SymbolTable) -> set[str]:
    """The names that code binds where every part of it can read them."""
    is_module = table.get_type() == "module"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if (symbol.is_assigned() or symbol.is_imported()) and (is_module or symbol.is_declared_global())
    }
    return names.union(*map(_global_names, table.get_children()))


def hooks(passed: Callable[[], None], failed: Callable[[str], None]) -> dict[str, Callable[..., None]]:
    """Return the names that rewritten code needs: each assertion calls `passed`, or `failed` with its reason."""

    def equal(found: Any, wanted: Any) -> None:
        if found == wanted:
            passed()
        else:
            failed(f"expected {shown(wanted)}, got {shown(found)}")

    def holds(is_so: Any, source: str, *sides: Any) -> None:
        if is_so:
            passed()
        elif sides:
            failed(f"expected {shown(sides[0])}, got {shown(sides[1])}")
        else:
            failed(f"this does not hold: {source}")

    return {EQUAL: equal, HOLDS: holds}


def shown(value: Any) -> str:
    """Return a value as it is shown in a reason: on one line, of bounded length."""
    try:
        return _repr.repr(value)[:_MAX_REASON]
    except ValueError:  # Python refuses to write integers of thousands of digits
        return f"a value of type {type(value).__name__}, too large to be written"


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self._arguments: list[set[str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._arguments.append({argument.arg for argument in node.args.args})
        self.generic_visit(node)
        self._arguments.pop()
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        source = ast.Constant(ast.unparse(node.test)[:_MAX_REASON])
        match node.test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                call = _call(EQUAL, [left, right])
            case _ if self._arguments and {"out", "exp"} <= self._arguments[-1]:
                # EvalPlus asserts through a function of these arguments, on a flag that says nothing
                call = _call(HOLDS, [node.test, source, _read("exp"), _read("out")])
            case _:
                call = _call(HOLDS, [node.test, source])
        return ast.copy_location(ast.Expr(call), node)


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(_read(name), arguments, [])


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())
