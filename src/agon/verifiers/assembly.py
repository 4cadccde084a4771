"""A whole program out of what a completion gives of it and what its question gives."""

from __future__ import annotations

import ast
import warnings

from agon.code_text import MAX_CODE_CHARS, parse

_FILE_NAME = "<program>"


class NoProgramError(Exception):
    """The text is no program; says why."""


def assemble(code: str, *, prefix: str, name: str | None) -> str:
    """Return the program to run.

    With a prefix (the head of a function and what stands before it, as in HumanEval), code that defines `name` follows it, so that
    imports and helpers of the question are there; code that does not goes on where the prefix ends. Code that cannot follow (it
    starts with `from __future__`) stands alone.

    Raises:
        NoProgramError: in none of these ways is it Python.
    """
    if len(code) > MAX_CODE_CHARS:
        raise NoProgramError(f"the program has {len(code):,} characters; more than {MAX_CODE_CHARS:,} are not run")
    fault = syntax_fault(code)
    if prefix and name:
        whole = f"{prefix.rstrip()}\n\n{code}" if fault is None and _defines(code, name) else f"{prefix}{code}"
        if syntax_fault(whole) is None:
            return whole
    if fault is not None:
        raise NoProgramError(fault)
    return code


def syntax_fault(code: str) -> str | None:
    """Return why Python cannot compile a text, None if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, _FILE_NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})" if error.lineno else error.msg
    except (ValueError, OverflowError) as error:
        return f"not a text that Python reads ({error})"
    except (MemoryError, RecursionError):
        return "too deeply nested"
    return None


def _defines(code: str, name: str) -> bool:
    tree = parse(code)
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
