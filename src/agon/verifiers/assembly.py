"""A whole program out of what a completion gives of it and what its question gives. Parsed, never compiled: that is for the sandbox."""

from __future__ import annotations

import ast

from agon.code_parse import MAX_CODE_CHARS, parse, syntax_fault


class NoProgramError(Exception):
    """The text is no program; says why."""


def assemble(code: str, *, prefix: str, name: str | None) -> str:
    """Return the program to run.

    With a prefix (the head of a function and what stands before it, as in HumanEval), code that defines `name` follows it, so that
    imports and helpers of the question are there; code that does not goes on where the prefix ends. Imports from `__future__`, which
    must come first, are set before the prefix; where other code shares their lines, the code stands alone.

    Raises:
        NoProgramError: in none of these ways can Python parse it.
    """
    if len(code) > MAX_CODE_CHARS:
        raise NoProgramError(f"the program has {len(code):,} characters; more than {MAX_CODE_CHARS:,} are not run")
    code = code.removeprefix("\ufeff")  # the mark of an encoding
    tree = parse(code, max_chars=MAX_CODE_CHARS)
    if prefix and name:
        whole = _after_prefix(code, tree, prefix) if _defines(tree, name) else f"{prefix}{code}"
        if whole is not None and syntax_fault(whole) is None:
            return whole
    if tree is None:
        raise NoProgramError(syntax_fault(code))
    return code


def _after_prefix(code: str, tree: ast.Module | None, prefix: str) -> str | None:
    """The code after the prefix, and before both what it imports from `__future__`; None if that cannot be taken out of it."""
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # the lines as Python counts them
    body = tree.body if tree else []
    imports = [item for item in body if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    for item in imports:
        last = item.end_lineno or item.lineno
        if any(other is not item and other.lineno <= last and item.lineno <= (other.end_lineno or 0) for other in body):
            return None
        lines[item.lineno - 1 : last] = [""] * (last - item.lineno + 1)
    first = "".join(f"{ast.unparse(item)}\n" for item in imports)
    return "\n".join([f"{first}{prefix.rstrip()}\n", *lines])


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
