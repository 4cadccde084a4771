"""Objects of classes that a task shares with the program (the nodes of a graph), written as plain data and read back on the other side.

The same source runs on both sides, so it imports nothing of ours. Objects are numbered in the order in which they are met: one that
comes back under its number is the same object again, brought up to date. What the program's side sends is checked: it names classes
that are shared and attributes that are ordinary, or it is refused.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

CALL = "__agon_call__"


class Book:
    """The objects that one call is about, by number."""

    def __init__(self, classes: Mapping[str, type]) -> None:
        self.classes = classes
        self.objects: list[Any] = []
        self.number_of: dict[int, int] = {}

    def write(self, value: Any) -> list[Any]:
        """Return a value as plain data in which an object is its number."""
        kind = type(value)
        if kind in self.classes.values():
            return ["o", self._number(value)]
        if isinstance(value, dict):
            return ["d", [[self.write(key), self.write(item)] for key, item in value.items()]]
        for tag, sequence in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
            if kind is sequence:
                return [tag, [self.write(item) for item in value]]
        return ["v", value]

    def table(self) -> list[Any]:
        """Return class and attributes of every object that was met, also of those first met here."""
        rows: list[Any] = []
        while len(rows) < len(self.objects):
            known = self.objects[len(rows)]
            rows.append([type(known).__name__, self.write(dict(vars(known)))])
        return rows

    def update(self, rows: Sequence[Any]) -> None:
        """Take over what the other side's table says: new objects are made, known ones changed.

        Raises:
            ValueError: a class that is not shared, or an attribute that is not ordinary.
        """
        for number, (name, _) in enumerate(rows):
            if name not in self.classes:
                raise ValueError(f"an object of class {name!r}")
            if number == len(self.objects):
                self._number(object.__new__(self.classes[name]))
            elif type(self.objects[number]).__name__ != name:
                raise ValueError("an object that changed its class")
        for known, (_, written) in zip(self.objects, rows, strict=True):
            attributes = self.read(written)
            if not isinstance(attributes, dict) or not all(map(_is_ordinary, attributes)):
                raise ValueError("attributes that are not ordinary")
            vars(known).clear()
            vars(known).update(attributes)

    def read(self, written: Any) -> Any:
        """Return the value that was written.

        Raises:
            ValueError: it is none.
        """
        tag: Any
        content: Any
        tag, content = written
        if tag == "v":
            return content
        if tag == "o" and content in range(len(self.objects)):
            return self.objects[content]
        if tag == "d":
            return {self.read(key): self.read(item) for key, item in content}
        for known, sequence in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
            if tag == known:
                return sequence(self.read(item) for item in content)
        raise ValueError(f"a value marked {tag!r}")

    def _number(self, value: Any) -> int:
        if id(value) not in self.number_of:
            self.number_of[id(value)] = len(self.objects)
            self.objects.append(value)
        return self.number_of[id(value)]


def with_shared(program: str, shared: str) -> str:
    """Return the program with a function of its side added, which reads and writes objects of the shared classes."""
    source = inspect.getsource(sys.modules[__name__])
    return (
        f"{program}\n\n"
        f"exec({source!r}, __agon_objects__ := {{'__name__': 'objects'}})\n"
        f"exec({shared!r}, __agon_shared__ := {{'__name__': 'shared'}})\n"
        f"{CALL} = lambda *request: __agon_objects__['answer'](globals(), __agon_shared__, *request)\n"
    )


def answer(
    names: Mapping[str, Any], shared: Mapping[str, Any], name: str, args: Any, kwargs: Any, rows: Any
) -> list[Any]:
    """Call a function of the program with what was written, and write what came of it. Runs on the program's side."""
    book = Book(classes_of(shared))
    book.update(rows)
    given, keywords = book.read(args), book.read(kwargs)
    if name not in names:
        raise NameError(f"no function {name!r}")
    value = names[name](*given, **keywords)
    return [book.write(value), book.write(given), book.write(keywords), book.table()]


def classes_of(names: Mapping[str, Any]) -> dict[str, type]:
    """Return the classes among the names of a module, by name."""
    return {name: value for name, value in names.items() if isinstance(value, type)}


def _is_ordinary(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and not name.startswith("__")
