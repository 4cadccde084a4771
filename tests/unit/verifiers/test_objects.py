from __future__ import annotations

import pytest

from agon.program_tests import CodeTests
from agon.verifiers.judge import judge
from agon.verifiers.objects import CALL, Book, with_shared

NODE = "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
REVERSE = "def reverse(node):\n    before = None\n    while node:\n        node.next, before, node = before, node, node.next\n    return before\n"


class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next


def book():
    return Book({"Node": Node})


def test_objects_come_back_as_themselves_and_changed():
    first = Node(1, Node(2))
    ours, theirs = book(), book()
    written = ours.write([first, (first, {"a": first.next})])
    theirs.update(ours.table())
    copy = theirs.read(written)
    assert copy[0] is copy[1][0]
    assert copy[0] is not first
    copy[0].value = 10
    copy[0].next.next = copy[0]
    new = Node(3)
    result = theirs.write([copy[0], new])
    ours.update(theirs.table())
    back = ours.read(result)
    assert back[0] is first
    assert first.value == 10
    assert first.next.next is first
    assert (type(back[1]), back[1].value) == (Node, 3)


@pytest.mark.parametrize(
    "rows",
    [
        [["os", ["d", []]]],
        [["Node", ["v", 1]]],
        [["Node", ["d", [[["v", "__class__"], ["v", 1]]]]]],
        [["Node", ["d", [[["v", 1], ["v", 1]]]]]],
    ],
)
def test_a_table_of_other_classes_or_attributes_is_refused(rows):
    with pytest.raises(ValueError, match=r"class|ordinary"):
        book().update(rows)


@pytest.mark.parametrize("written", [["o", 0], ["o", -1], ["o", "x"], ["q", 1]])
def test_what_was_never_written_is_not_read(written):
    with pytest.raises(ValueError, match="marked"):
        book().read(written)


def test_the_programs_side_finds_its_function_and_keeps_its_own_names():
    names = {}
    exec(with_shared("Book = 1\ndef f(node): return node.value + Book", NODE), names)
    ours = book()
    args = ours.write((Node(4),))
    value, *_ = names[CALL]("f", args, ours.write({}), ours.table())
    assert ours.read(value) == 5
    with pytest.raises(NameError, match="'g'"):
        names[CALL]("g", args, ours.write({}), ours.table())


def test_tests_about_objects_see_identity_and_changes(make_sandbox, tester, limits):
    code = (
        "def test1():\n    last = Node(2)\n    first = Node(1, last)\n    result = reverse(first)\n"
        "    assert result is last\n    assert last.next is first\n    assert first.next is None\n"
    )
    tests = CodeTests(("test1()",), ("reverse",), setup=code, shared=NODE, num_tests=3)
    assert judge(REVERSE, tests, make_sandbox(), tester, limits) == ("correct", "all 3 tests passed")
    outcome, reason = judge("def reverse(node): return node", tests, make_sandbox(), tester, limits)
    assert (outcome, reason) == ("wrong", "test 1 of 3: this does not hold: result is last")
    outcome, reason = judge("def reverse(node): return object()", tests, make_sandbox(), tester, limits)
    assert outcome == "wrong"
    assert "not plain data" in reason
