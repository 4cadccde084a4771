"""Samples cut into micro-batches by a token budget: packed end to end, or padded where a family cannot be packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from agon.learner.attention import Packing, plan_packing


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion to learn from, with the logprobs the engine gave its tokens.

    A masked sample (checker failed, group without a signal) counts nowhere. Units: nats.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    behavior_logprobs: Sequence[float]
    advantage: float
    is_masked: bool = False


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Whole samples laid out for one forward pass. What is learned is named by position, never by token value.

    `predict_index` names, in the flattened rows of `input_ids`, the position whose output predicts each completion token;
    `rows` says which of `samples` (indices into the step's list) a completion token belongs to. `packing` is None when padded.
    """

    samples: tuple[int, ...]
    input_ids: Int[Tensor, "batch seq"]
    position_ids: Int[Tensor, "batch seq"]
    packing: Packing | None
    predict_index: Int[Tensor, " tokens"]
    target_ids: Int[Tensor, " tokens"]
    rows: Int[Tensor, " tokens"]
    lengths: Int[Tensor, " rows"]
    advantages: Float[Tensor, " rows"]
    behavior_logprobs: Float[Tensor, " tokens"]


def make_microbatches(
    samples: Sequence[Sample], indices: Sequence[int], *, budget: int, is_packed: bool, device: torch.device
) -> list[MicroBatch]:
    """Cut and lay out micro-batches, all at once."""
    cuts = cut_microbatches(samples, indices, budget=budget, is_packed=is_packed)
    return [lay_out(samples, chosen, is_packed=is_packed, device=device) for chosen in cuts]


def cut_microbatches(
    samples: Sequence[Sample], indices: Sequence[int], *, budget: int, is_packed: bool
) -> list[tuple[int, ...]]:
    """Cut the samples named by `indices` into micro-batches of at most `budget` input tokens, longest first.

    Sorting by length keeps attention blocks (or padding) nearly full and puts the largest memory use first. A sample longer
    than the budget gets a micro-batch of its own. The last completion token is predicted but never an input.
    """
    order = sorted(indices, key=lambda index: (-_input_length(samples[index]), index))
    cuts: list[tuple[int, ...]] = []
    chosen: list[int] = []
    used = 0
    for index in order:
        # Padded, every row costs as much as the first, which is the longest.
        cost = _input_length(samples[index]) if is_packed or not chosen else _input_length(samples[chosen[0]])
        if chosen and used + cost > budget:
            cuts.append(tuple(chosen))
            chosen, used, cost = [], 0, _input_length(samples[index])
        chosen.append(index)
        used += cost
    return [*cuts, tuple(chosen)] if chosen else cuts


def num_input_tokens(samples: Sequence[Sample], chosen: Sequence[int], *, is_packed: bool) -> int:
    """Count the tokens of a micro-batch as the model sees it, padding included."""
    lengths = [_input_length(samples[index]) for index in chosen]
    return sum(lengths) if is_packed else len(lengths) * max(lengths)


def _input_length(sample: Sample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids) - 1


def lay_out(samples: Sequence[Sample], chosen: Sequence[int], *, is_packed: bool, device: torch.device) -> MicroBatch:
    """Lay samples out for one forward pass, without waiting for what the device does meanwhile."""
    picked = [samples[index] for index in chosen]
    lengths = [_input_length(sample) for sample in picked]
    longest = max(lengths)
    ids: list[int] = []
    for sample, length in zip(picked, lengths, strict=True):
        ids += sample.prompt_ids
        ids += sample.completion_ids[:-1]
        ids += [0] * (0 if is_packed else longest - length)
    starts = np.cumsum([0, *lengths[:-1]]) if is_packed else longest * np.arange(len(lengths))
    rows = [
        (start + len(sample.prompt_ids) - 1, len(sample.completion_ids))
        for start, sample in zip(starts.tolist(), picked, strict=True)
    ]
    places = [np.arange(length if is_packed else longest) for length in lengths]
    counts = np.array([len(sample.completion_ids) for sample in picked])
    targets = np.fromiter((token for sample in picked for token in sample.completion_ids), np.int64, counts.sum())
    behavior = np.fromiter((value for sample in picked for value in sample.behavior_logprobs), np.float32, counts.sum())
    shape = (1, -1) if is_packed else (len(picked), longest)

    def put(values: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(values)
        # Only pinned memory is copied while the device is busy.
        return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)

    return MicroBatch(
        samples=tuple(chosen),
        input_ids=put(np.array(ids, dtype=np.int64).reshape(shape)),
        position_ids=put(np.concatenate(places).reshape(shape)),
        packing=plan_packing(lengths, device) if is_packed else None,
        predict_index=put(np.concatenate([np.arange(start, start + count) for start, count in rows])),
        target_ids=put(targets),
        rows=put(np.repeat(np.arange(len(picked)), counts)),
        lengths=put(counts),
        advantages=put(np.array([sample.advantage for sample in picked], dtype=np.float32)),
        behavior_logprobs=put(behavior),
    )
