"""What can be told of test code without running it: whether it parses, what it calls of the program, how many tests it makes."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_BUILTIN = frozenset(dir(builtins))
_FILE_NAME = "<tests>"


def syntax_fault(code: str) -> str | None:
    """Return why Python cannot read a piece of code, None if it can."""
    try:
        symtable.symtable(code, _FILE_NAME, "exec")
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})" if error.lineno else error.msg
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        return type(error).__name__
    return None


def defined_names(code: str) -> frozenset[str]:
    """Return the names that a module binds at its top level; none if it cannot be read."""
    if syntax_fault(code) is not None:
        return frozenset()
    return _bound(symtable.symtable(code, _FILE_NAME, "exec"))


class Taken(NamedTuple):
    """What test code takes from the program: names in order, and, as code, imports that it relies on without importing itself."""

    names: tuple[str, ...]
    imports: str


def taken_from_program(code: str, *, program: str) -> Taken:
    """Return what the test code takes from the program: the global names that it reads and does not bind itself.

    A builtin such as `sum` is one of them only if the canonical `program` defines it. What that program only imports is imported for
    the test code too.
    """
    table = symtable.symtable(code, _FILE_NAME, "exec")
    bound = _bound(table)
    own = defined_names(program)
    imported = dict(_imports(program))
    read = [name for name in dict.fromkeys(_global_reads(table)) if name not in bound]
    names = tuple(name for name in read if name not in imported and (name not in _BUILTIN or name in own))
    return Taken(names, "".join(f"{imported[name]}\n" for name in read if name in imported))


def _bound(table: symtable.SymbolTable) -> frozenset[str]:
    return frozenset(
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    )


def _global_reads(table: symtable.SymbolTable) -> Iterable[str]:
    for symbol in table.get_symbols():
        is_global = symbol.is_global() or (table.get_type() == "module" and not symbol.is_assigned())
        if symbol.is_referenced() and is_global:
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_reads(child)


class Suite(NamedTuple):
    """A pytest file as plain code, and the names of its test functions in order."""

    code: str
    functions: tuple[str, ...]


def suite_of(code: str) -> Suite:
    """Return a pytest file without what needs pytest or the modules it tests: `if`s about pytest, imports outside the standard library."""
    kept: list[ast.stmt] = []
    names: list[str] = []
    for statement in ast.parse(code).body:
        match statement:
            case ast.Import(names=items) if not all(_is_standard(item.name) for item in items):
                continue
            case ast.ImportFrom(module=module) if not _is_standard(module or ""):
                continue
            case ast.If(test=condition) if "pytest" in ast.unparse(condition):
                continue
            case ast.FunctionDef(name=name) if name.startswith("test"):
                names.append(name)
            case _:
                pass
        kept.append(statement)
    return Suite("\n".join(ast.unparse(statement) for statement in kept), tuple(names))


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _imports(program: str) -> list[tuple[str, str]]:
    """Every name that a program's top level imports, with the statement that imports it alone."""
    if syntax_fault(program) is not None:
        return []
    found: list[tuple[str, str]] = []
    for statement in ast.parse(program).body:
        if isinstance(statement, ast.Import):
            found += [
                ((item.asname or item.name).partition(".")[0], ast.unparse(ast.Import([item])))
                for item in statement.names
            ]
        elif isinstance(statement, ast.ImportFrom):
            found += [
                (item.asname or item.name, ast.unparse(ast.ImportFrom(statement.module, [item], statement.level)))
                for item in statement.names
            ]
    return found


def count_tests(setup: str, pieces: Sequence[str]) -> int | None:
    """Return how many assertions a whole pass makes, None where that depends on more than the shape of the code.

    Counted are assertions in a row, in functions called by a plain statement, and in loops over a written-out list (also through
    `enumerate` and `zip`). Code that asserts nothing is counted as None.
    """
    statements = [statement for code in (setup, *pieces) for statement in ast.parse(code).body]
    counter = _Counter(statements)
    return counter.count(statements) or None


class _Counter:
    """Counts assertions by the shape of the code alone."""

    def __init__(self, statements: Sequence[ast.stmt]) -> None:
        nodes = [node for statement in statements for node in ast.walk(statement)]
        self._functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        self._lengths: dict[str, int | None] = {}
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        # a name bound twice has no one length
                        self._lengths[target.id] = None if target.id in self._lengths else _length(node.value)
        self._open: set[str] = set()

    def count(self, statements: Sequence[ast.stmt]) -> int | None:
        total = 0
        for statement in statements:
            counted = self._one(statement)
            if counted is None:
                return None
            total += counted
        return total

    def _one(self, statement: ast.stmt) -> int | None:
        match statement:
            case ast.Assert():
                return 1
            case ast.FunctionDef() | ast.ClassDef():
                return 0
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self._functions:
                return self._called(name)
            case ast.For(target=_, iter=iterated, body=body):
                inner = self.count(body)
                return inner if inner in (0, None) else self._times(inner, self._passes(iterated))
            case ast.If(test=_, body=body, orelse=orelse):
                first, second = self.count(body), self.count(orelse)
                return first if first == second else None
            case _:
                return None if any(isinstance(node, ast.Assert) for node in ast.walk(statement)) else 0

    def _called(self, name: str) -> int | None:
        if name in self._open:
            return None
        self._open.add(name)
        counted = self.count(self._functions[name].body)
        self._open.discard(name)
        return counted

    @staticmethod
    def _times(inner: int, passes: int | None) -> int | None:
        return None if passes is None else inner * passes

    def _passes(self, iterated: ast.expr) -> int | None:
        match iterated:
            case ast.Name(id=name):
                return self._lengths.get(name)
            case ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
                return self._passes(inner)
            case ast.Call(func=ast.Name(id="zip"), args=args):
                lengths = [self._passes(arg) for arg in args]
                known = [length for length in lengths if length is not None]
                return min(known) if known and len(known) == len(lengths) else None
            case ast.Call(func=ast.Name(id="range"), args=args):
                bounds = [arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, int)]
                return len(range(*bounds)) if 0 < len(bounds) == len(args) <= 2 else None
            case _:
                return _length(iterated)


def _length(value: ast.expr) -> int | None:
    if isinstance(value, ast.List | ast.Tuple) and not any(isinstance(item, ast.Starred) for item in value.elts):
        return len(value.elts)
    return None
