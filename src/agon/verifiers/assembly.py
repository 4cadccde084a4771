"""A whole program out of what a completion gives of it and what its question gives. Parsed, never compiled: that is for the sandbox."""

from __future__ import annotations

import ast

from agon.code_text import MAX_CODE_CHARS, parse, syntax_fault


class NoProgramError(Exception):
    """The text is no program; says why."""


def assemble(code: str, *, prefix: str, name: str | None) -> str:
    """Return the program to run.

    With a prefix (the head of a function and what stands before it, as in HumanEval), code that defines `name` follows it, so that
    imports and helpers of the question are there; code that does not goes on where the prefix ends. Code with an import from
    `__future__`, which must come first, stands alone.

    Raises:
        NoProgramError: in none of these ways can Python parse it.
    """
    if len(code) > MAX_CODE_CHARS:
        raise NoProgramError(f"the program has {len(code):,} characters; more than {MAX_CODE_CHARS:,} are not run")
    tree = parse(code, max_chars=MAX_CODE_CHARS)
    if prefix and name and not _imports_future(tree):
        whole = f"{prefix.rstrip()}\n\n{code}" if _defines(tree, name) else f"{prefix}{code}"
        if syntax_fault(whole) is None:
            return whole
    if tree is None:
        raise NoProgramError(syntax_fault(code))
    return code


def _imports_future(tree: ast.Module | None) -> bool:
    body = tree.body if tree else ()
    return any(isinstance(statement, ast.ImportFrom) and statement.module == "__future__" for statement in body)


def _defines(tree: ast.Module | None, name: str) -> bool:
    for statement in tree.body if tree else ():
        match statement:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                bindings = [bound]
            case ast.Assign(targets=targets):
                bindings = [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                bindings = []
        if name in bindings:
            return True
    return False
