"""Samples cut into micro-batches by a token budget: packed end to end, or padded where a family cannot be packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
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
    """Cut the samples named by `indices` into micro-batches of at most `budget` input tokens, longest first.

    Sorting by length keeps attention blocks (or padding) nearly full and puts the largest memory use first. A sample longer
    than the budget gets a micro-batch of its own. The last completion token is predicted but never an input.
    """
    order = sorted(indices, key=lambda index: (-_input_length(samples[index]), index))
    batches: list[MicroBatch] = []
    chosen: list[int] = []
    used = 0
    for index in order:
        # Padded, every row costs as much as the first, which is the longest.
        cost = _input_length(samples[index]) if is_packed or not chosen else _input_length(samples[chosen[0]])
        if chosen and used + cost > budget:
            batches.append(_lay_out(samples, chosen, is_packed=is_packed, device=device))
            chosen, used = [], 0
            cost = _input_length(samples[index])
        chosen.append(index)
        used += cost
    if chosen:
        batches.append(_lay_out(samples, chosen, is_packed=is_packed, device=device))
    return batches


def _input_length(sample: Sample) -> int:
    return len(sample.prompt_ids) + len(sample.completion_ids) - 1


def _lay_out(samples: Sequence[Sample], chosen: Sequence[int], *, is_packed: bool, device: torch.device) -> MicroBatch:
    picked = [samples[index] for index in chosen]
    lengths = [_input_length(sample) for sample in picked]
    longest = max(lengths)
    ids: list[int] = []
    positions: list[int] = []
    predict: list[int] = []
    for sample, length in zip(picked, lengths, strict=True):
        first = len(ids) + len(sample.prompt_ids) - 1
        predict.extend(range(first, first + len(sample.completion_ids)))
        ids.extend(sample.prompt_ids)
        ids.extend(sample.completion_ids[:-1])
        padding = 0 if is_packed else longest - length
        ids.extend([0] * padding)
        positions.extend(range(length + padding))
    shape = (1, -1) if is_packed else (len(picked), longest)
    counts = torch.tensor([len(sample.completion_ids) for sample in picked])
    return MicroBatch(
        samples=tuple(chosen),
        input_ids=torch.tensor(ids, device=device).view(shape),
        position_ids=torch.tensor(positions, device=device).view(shape),
        packing=plan_packing(lengths, device) if is_packed else None,
        predict_index=torch.tensor(predict, device=device),
        target_ids=torch.tensor([token for sample in picked for token in sample.completion_ids], device=device),
        rows=torch.arange(len(picked)).repeat_interleave(counts).to(device),
        lengths=counts.to(device),
        advantages=torch.tensor([sample.advantage for sample in picked], dtype=torch.float32, device=device),
        behavior_logprobs=torch.tensor(
            [logprob for sample in picked for logprob in sample.behavior_logprobs], dtype=torch.float32, device=device
        ),
    )
