from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agon.seeding import numpy_rng, python_rng, stream_seed

names = st.lists(st.one_of(st.text(max_size=5), st.integers(-5, 500)), max_size=4)


@given(st.integers(0, 2**31), names)
def test_a_stream_is_a_function_of_seed_and_names(seed, parts):
    assert stream_seed(seed, *parts) == stream_seed(seed, *parts)
    assert 0 <= stream_seed(seed, *parts) < 2**63


def test_neighbouring_streams_share_nothing():
    seeds = {stream_seed(seed, "train", step, sample) for seed in range(5) for step in range(20) for sample in range(8)}
    assert len(seeds) == 5 * 20 * 8


def test_a_number_and_its_text_name_different_streams():
    assert stream_seed(0, 1) != stream_seed(0, "1")


def test_joined_names_do_not_collide():
    assert stream_seed(0, "ab", "c") != stream_seed(0, "a", "bc")


def test_generators_repeat_their_draws():
    assert numpy_rng(3, "a").random() == numpy_rng(3, "a").random() != numpy_rng(4, "a").random()
    assert python_rng(3, "a").random() == python_rng(3, "a").random() != python_rng(3, "b").random()
