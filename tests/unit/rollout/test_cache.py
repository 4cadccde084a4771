from __future__ import annotations

import torch
from transformers.cache_utils import Cache, DynamicLayer
from transformers.models.llama import LlamaConfig

from agon.rollout.cache import DecodeCache, can_prune, has_running_state

CONFIG = LlamaConfig(
    hidden_size=4, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=1, intermediate_size=4
)


def prefilled(*rows: list[float]) -> Cache:
    """A prefilled cache of width 2 whose keys hold these numbers and whose values hold their negatives."""
    longest = max(map(len, rows))
    numbers = torch.tensor([[*row, *[99.0] * (longest - len(row))] for row in rows], dtype=torch.float32)
    keys = numbers[:, None, :, None].expand(-1, 1, -1, 2)
    layer = DynamicLayer()
    layer.update(keys, -keys)
    return Cache(layers=[layer])


def step(cache: DecodeCache, *numbers: float) -> list[list[float]]:
    """Write one number a row and return what each row may look at."""
    cache.begin_step()
    new = torch.tensor(numbers, dtype=torch.float32)[:, None, None, None].expand(-1, 1, 1, 2)
    keys, values = cache.update(new, -new, 0)
    assert torch.equal(keys, -values)
    mask = cache.mask()
    seen = []
    for row in range(len(numbers)):
        visible = torch.ones(keys.shape[2], dtype=torch.bool) if mask is None else mask[row, 0, 0] == 0
        assert torch.equal(keys[row, 0, :, 0], keys[row, 0, :, 1])
        seen.append(keys[row, 0, visible, 0].tolist())
    cache.end_step()
    return seen


def test_rows_of_different_length_see_their_own_tokens_only():
    cache = DecodeCache(CONFIG, room=4, longest_prompt=3)
    cache.admit(prefilled([1, 2, 3], [4]), rows=[1, 0, 0], lengths=[1, 3, 3])
    assert step(cache, 10, 20, 30) == [[4, 10], [1, 2, 3, 20], [1, 2, 3, 30]]
    assert step(cache, 11, 21, 31) == [[4, 10, 11], [1, 2, 3, 20, 21], [1, 2, 3, 30, 31]]


def test_a_row_takes_the_place_of_one_that_left_and_others_join():
    cache = DecodeCache(CONFIG, room=3, longest_prompt=3)
    cache.admit(prefilled([1], [2, 3], [4, 5, 6]), rows=[0, 1, 2], lengths=[1, 2, 3])
    step(cache, 10, 20, 30)
    cache.select([2, 1])
    assert step(cache, 31, 21) == [[4, 5, 6, 30, 31], [2, 3, 20, 21]]
    cache.admit(prefilled([7, 8]), rows=[0], lengths=[2])
    assert step(cache, 32, 22, 40) == [[4, 5, 6, 30, 31, 32], [2, 3, 20, 21, 22], [7, 8, 40]]
    cache.select([2])
    assert step(cache, 41) == [[7, 8, 40, 41]]


def test_room_is_made_without_forgetting_and_slots_left_behind_are_reused():
    cache = DecodeCache(CONFIG, room=2, longest_prompt=5)
    cache.admit(prefilled([1, 2]), rows=[0], lengths=[2])
    for number in range(500):
        seen = step(cache, float(number))
        if number == 150:
            assert seen == [[1.0, 2.0, *map(float, range(151))]]
            cache.admit(prefilled([7, 8, 9]), rows=[0], lengths=[3])
            cache.select([1])
    assert seen == [[7.0, 8.0, 9.0, *map(float, range(151, 500))]]
    cache.admit(prefilled([1, 2, 3, 4, 5]), rows=[0], lengths=[5])
    assert step(cache, -1, -2)[1] == [1, 2, 3, 4, 5, -2]
    # 352 tokens in use: without reuse there would be over 700 slots.
    assert cache.layers[0].keys.shape[2] < 650


def test_all_rows_may_leave_and_new_ones_begin():
    cache = DecodeCache(CONFIG, room=2, longest_prompt=2)
    cache.admit(prefilled([1, 2]), rows=[0, 0], lengths=[2, 2])
    step(cache, 3, 4)
    cache.select([])
    assert cache.num_rows == 0
    cache.admit(prefilled([5]), rows=[0], lengths=[1])
    assert step(cache, 6) == [[5, 6]]


def test_room_is_made_for_more_rows_and_longer_prompts_and_the_rows_is_given_up_again():
    cache = DecodeCache(CONFIG, room=2, longest_prompt=1)
    cache.admit(prefilled([1], [2]), rows=[0, 1], lengths=[1, 1])
    assert step(cache, 10, 20) == [[1, 10], [2, 20]]
    # Five rows where there is room for two, and a prompt that does not fit before the slot.
    cache.admit(prefilled([3], [4, 5, 6, 7, 8, 9]), rows=[0, 1, 1], lengths=[1, 6, 6])
    long = [4, 5, 6, 7, 8, 9]
    assert step(cache, 11, 21, 30, 40, 50) == [[1, 10, 11], [2, 20, 21], [3, 30], [*long, 40], [*long, 50]]
    assert cache.layers[0].keys.shape[0] == 8
    cache.select([0, 4])
    assert step(cache, 12, 51) == [[1, 10, 11, 12], [*long, 50, 51]]
    for number in range(100):
        seen = step(cache, number, -number)
    assert seen == [[1, 10, 11, 12, *range(100)], [*long, 50, 51, *(-number for number in range(100))]]
    assert cache.layers[0].keys.shape[0] == 2


def test_families_are_told_apart(make_base):
    kinds = {family: make_base(family).model.config for family in ("llama", "qwen2-window", "qwen3.5", "gemma4")}
    assert {family for family, config in kinds.items() if has_running_state(config)} == {"qwen3.5"}
    assert all(can_prune(config) for config in kinds.values())
    chunked = LlamaConfig(num_hidden_layers=1)
    chunked.layer_types = ["chunked_attention"]
    chunked.attention_chunk_size = 4
    assert not can_prune(chunked)
