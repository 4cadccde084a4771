"""What happens in a test process: the test code runs here, and each name under test stands for a call of the program elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from agon.program_tests import CodeTests
from agon.verifiers.assertions import compile_tests, hooks, is_own_fault
from agon.verifiers.objects import CALL, Book, classes_of
from agon.verifiers.sandbox.plain import MAX_VALUES, NotPlainError

_MAX_REASON = 300
_NESTED = (list, tuple, set, frozenset, dict)

Exchange = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Asked(NamedTuple):
    """How the test code ended: `held`, `not held` or `broken tests`, why, and after how many passed assertions."""

    kind: str
    reason: str
    num_passed: int


class _Stopped(BaseException):
    """The end of the test code. Not an Exception: no `except Exception` of a test goes on after it."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class _Tally:
    def __init__(self) -> None:
        self.num_passed = 0
        self.num_calls = 0
        self.stopped: _Stopped | None = None

    def passed(self) -> None:
        self.num_passed += 1

    def stop(self, kind: str, reason: str) -> NoReturn:
        # kept, in case that a bare `except` of the test code swallows it
        self.stopped = self.stopped or _Stopped(kind, reason)
        raise self.stopped


def ask(tests: CodeTests, exchange: Exchange) -> Asked:
    """Run the test code.

    `exchange` takes ("call", passed so far, name, args, kwargs) and gives the three parts of a CallResult, or nothing for a result that
    was too large to cross.
    """
    tally = _Tally()
    namespace: dict[str, Any] = {
        "__name__": "tests",
        **hooks(tally.passed, lambda reason: tally.stop("not held", reason)),
    }
    # The question's own code comes first: tests use its helpers, and its unfinished function makes way for the program's.
    given, parts = (tests.shared, tests.prefix), (tests.setup, *tests.pieces)
    try:
        # all of it before the first call: a later SyntaxError is about what a program returned
        given_codes = [compile_tests(part) for part in given]
        codes = [compile_tests(part) for part in parts]
        for code in given_codes:
            exec(code, namespace)
        if tests.shared:
            exchange = _with_objects(exchange, classes_of(namespace))
        namespace |= {name: _stub(name, tally, exchange) for name in tests.names}
        for code in codes:
            exec(code, namespace)
    except _Stopped:
        pass
    except BaseException as error:  # whatever test code raises
        reason = _in_words(error)
        if tally.num_calls == 0 or is_own_fault(error, (*given, *parts)):
            return Asked("broken tests", reason, tally.num_passed)
        return Asked("not held", f"the tests cannot use what was returned ({reason})", tally.num_passed)
    if tally.stopped is not None:
        return Asked(tally.stopped.kind, tally.stopped.reason, tally.num_passed)
    return Asked("held", "", tally.num_passed)


def _in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_MAX_REASON]
    except Exception:  # the message of the test code's own exception class
        return type(error).__name__


def _stub(name: str, tally: _Tally, exchange: Exchange) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if tally.stopped is not None:
            raise tally.stopped
        try:
            answer = exchange(("call", tally.num_passed, name, args, kwargs))
        except NotPlainError as error:
            # Only what is too deep or too large can be made of what a program returned: that was plain data.
            is_returned = tally.num_calls > 0 and (
                not str(error).startswith("a value of") or TooLarge.__name__ in str(error)
            )
            kind = "not held" if is_returned else "broken tests"
            tally.stop(kind, f"{name} is given an argument that is not plain data: {error}")
        except _NotSharedError as error:
            tally.stop("not held", f"what came back is not plain data ({error})")
        tally.num_calls += 1
        if not answer:
            return TooLarge()
        value, args_after, kwargs_after = answer
        if args_after is not None:
            for before, after in zip(args, args_after, strict=False):
                copy_back(before, after)
        for key, before in kwargs.items():
            copy_back(before, (kwargs_after or {}).get(key))
        return value

    call.__name__ = name
    return call


class TooLarge:
    """Stands for a result of more values than can cross: equal to whatever has as many, and of no other use.

    Some tests of EvalPlus want results of a hundred million values. They cannot be compared, and a right program must not fail by them;
    the row's other tests decide.
    """

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "a value too large to be compared"

    def __eq__(self, other: object) -> bool:
        return has_more_values(other, MAX_VALUES)


def has_more_values(value: object, limit: int) -> bool:
    """Tell whether a value holds more than so many values, itself among them, without looking at many more."""
    num_values, left = 1, [value]
    while left and num_values <= limit:
        items = left.pop()
        parts: list[object] = []
        if isinstance(items, dict):
            parts = [*items.keys(), *items.values()]
        elif isinstance(items, _NESTED):
            parts = list(items)
        num_values += len(parts)
        left += (part for part in parts if isinstance(part, _NESTED))
    return num_values > limit


class _NotSharedError(Exception):
    """What came back is not about the objects that both sides know."""


def _with_objects(exchange: Exchange, classes: Mapping[str, type]) -> Exchange:
    """Have objects of shared classes cross by their attributes. `exchange` calls the function that `with_shared` added."""

    def call(message: tuple[Any, ...]) -> tuple[Any, ...]:
        kind, num_passed, name, args, kwargs = message
        book = Book(classes)
        written = [name, book.write(args), book.write(kwargs)]
        answer = exchange((kind, num_passed, CALL, (*written, book.table()), {}))
        if not answer:
            return answer
        value, _, _ = answer
        try:
            result, args_after, kwargs_after, rows = value
            book.update(rows)
            return book.read(result), book.read(args_after), book.read(kwargs_after)
        except (ValueError, TypeError, RecursionError) as error:
            raise _NotSharedError(str(error)[:_MAX_REASON]) from None

    return call


def copy_back(before: Any, after: Any) -> None:
    """Make an argument look as the program left its copy, in place; what is inside it too, where the shape is the same."""
    if type(before) is not type(after):
        return
    match before:
        case list() if len(before) == len(after):
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                before[index] = _replaced(old, new)
        case list() | bytearray():
            before[:] = after
        case dict() if list(before) == list(after):
            for key, new in after.items():
                before[key] = _replaced(before[key], new)
        case dict() | set():
            before.clear()
            before.update(after)
        case deque():
            items = list(map(_replaced, before, after) if len(before) == len(after) else after)
            before.clear()
            before.extend(items)
        case _:
            return


def _replaced(old: Any, new: Any) -> Any:
    """The old object, brought up to date, if it can be; else the new one."""
    if type(old) is type(new) and isinstance(old, list | dict | set | bytearray | deque):
        copy_back(old, new)
        return old
    return new
