import itertools
import sys
import time
from collections import Counter, OrderedDict, deque, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.verifiers.sandbox.plain import MAX_DEPTH, NotPlainError, decode, encode

MOST = 1 << 20
KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
VALUES = st.recursive(
    KEYS | st.complex_numbers(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.sets(KEYS, max_size=4),
    max_leaves=15,
)


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


@given(VALUES)
def test_what_is_written_is_read_back_with_its_types(value):
    assert same(decode(encode(value, max_bytes=MOST)), value)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data):
    try:
        decode(data)
    except NotPlainError:
        return


@given(VALUES, st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_bytes_are_a_value_or_refused(value, where, byte):
    data = bytearray(encode(value, max_bytes=MOST))
    data[where % len(data)] = byte
    try:
        decode(bytes(data))
    except NotPlainError:
        return


@given(VALUES)
def test_cut_off_bytes_are_refused(value):
    data = encode(value, max_bytes=MOST)
    with pytest.raises(NotPlainError):
        decode(data[:-1])
    with pytest.raises(NotPlainError):
        decode(data + b"N")


class Equal(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "value",
    [Equal(), Pair(1, 2), object(), len, int, [Equal()], {"a": Equal()}],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_taken_by_its_exact_type_only(value):
    with pytest.raises(NotPlainError):
        encode(value, max_bytes=MOST)


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def test_depth_is_limited_on_both_sides():
    deepest = encode(nested(MAX_DEPTH), max_bytes=MOST)
    assert decode(deepest) == nested(MAX_DEPTH)
    with pytest.raises(NotPlainError):
        encode(nested(MAX_DEPTH + 1), max_bytes=MOST)
    with pytest.raises(NotPlainError):
        decode(b"l\1\0\0\0" + deepest)


WRAPPERS = {
    "dict": lambda value: {1: value},
    "Counter": lambda value: Counter({1: value}),
    "OrderedDict": lambda value: OrderedDict({1: value}),
    "tuple": lambda value: (value,),
    "deque": lambda value: deque([value]),
    "frozenset": lambda value: frozenset({value}),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_the_deepest_value_is_read_far_down_in_other_calls(wrap):
    value = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    data = encode(value, max_bytes=MOST)

    def down(levels):
        return down(levels - 1) if levels else decode(data)

    # not compared: two nested Counters take 2 ** 200 steps
    assert encode(down(300), max_bytes=MOST) == data


def test_a_stack_that_is_used_up_is_no_error_of_its_own():
    data = encode(nested(MAX_DEPTH), max_bytes=MOST)

    def down(levels):
        return down(levels - 1) if levels else decode(data)

    with pytest.raises(NotPlainError, match="followed"):
        down(sys.getrecursionlimit() - 200)


def test_size_is_limited_when_writing():
    assert len(encode("x" * 100, max_bytes=200)) == 105  # a letter, four bytes of length, the text
    with pytest.raises(NotPlainError):
        encode("x" * 201, max_bytes=200)
    with pytest.raises(NotPlainError):
        encode([None] * 201, max_bytes=200)


def test_a_length_that_lies_costs_nothing():
    for tag in b"lteszbdi":
        with pytest.raises(NotPlainError):
            decode(bytes([tag]) + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("tag", [b"e", b"z", b"k", b"d", b"C", b"O", b"x"])
@pytest.mark.parametrize("num_repeated", [0, 20_000])
def test_keys_chosen_to_collide_are_refused_at_once(tag, num_repeated):
    # every multiple of 2 ** 61 - 1 has the hash 0: a set of 20,000 needs 200 million comparisons
    keys = [number * (2**61 - 1) for number in range(1, 20_000)]
    keys += keys[-1:] * num_repeated
    if tag in b"dCOx":
        keys = [part for key in keys for part in (key, None)]
    start = time.thread_time()
    with pytest.raises(NotPlainError, match="keys that collide"):
        decode(tag + encode(keys, max_bytes=MOST)[1:])
    assert time.thread_time() - start < 2


def test_keys_that_collide_by_chance_are_not_refused():
    # -1 and -2 share a hash, and so do all 64 of these tuples
    value = dict.fromkeys(itertools.product((-1, -2), repeat=6), 1) | dict.fromkeys(range(1000), 2)
    assert decode(encode(value, max_bytes=MOST)) == value


def test_many_values_are_given_up_at_the_deadline():
    data = encode([None] * 900_000, max_bytes=MOST)
    start = time.thread_time()
    with pytest.raises(TimeoutError):
        decode(data, deadline=start + 0.001)
    assert time.thread_time() - start < 0.2


def test_repeated_keys_are_one():
    item = encode(1, max_bytes=MOST)
    assert decode(b"e\2\0\0\0" + item + item) == {1}
    assert decode(b"d\4\0\0\0" + item + b"N" + item + b"T") == {1: True}


def test_a_counter_is_one_again():
    value = decode(encode(Counter("aab"), max_bytes=MOST))
    assert type(value) is Counter
    assert value.most_common(1) == [("a", 2)]


def test_named_tuples_cross_from_a_program_only_and_as_tuples():
    class Named(Pair):
        def total(self):
            return self.a + self.b

    for value in (Pair(1, 2), Named(1, 2)):
        read = decode(encode([value], max_bytes=MOST, is_from_program=True))
        assert read == [(1, 2)]
        assert type(read[0]) is tuple
        with pytest.raises(NotPlainError):
            encode([value], max_bytes=MOST)


def test_numbers_and_texts_of_numpy_come_as_pythons_own():
    numpy = pytest.importorskip("numpy")
    values = {
        numpy.float64(1.5): 1.5,
        numpy.int32(2): 2,
        numpy.bool_(True): True,
        numpy.longdouble(1.25): 1.25,
        numpy.clongdouble(2j): 2j,
        numpy.str_("a"): "a",
        numpy.bytes_(b"a"): b"a",
    }
    for value, wanted in values.items():
        read = decode(encode(value, max_bytes=MOST))
        assert (read, type(read)) == (wanted, type(wanted))
    for value in (numpy.zeros(3), numpy.array(3), numpy.matrix([[1, 2]]), numpy.datetime64("2020-01-01")):
        with pytest.raises(NotPlainError):
            encode(value, max_bytes=MOST)
