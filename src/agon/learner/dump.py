"""Samples written to a folder, so that a step that went wrong can be looked at and run again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

from agon.learner.packing import Sample
from agon.model.storage import write_tensors

_TENSORS, _TEXT = "batch.safetensors", "batch.json"


def write_batch(folder: Path, samples: Sequence[Sample]) -> Path:
    """Write samples into `folder` (made if needed), logprobs and advantages exactly, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        "prompt_ids": _flat([sample.prompt_ids for sample in samples], torch.int64),
        "completion_ids": _flat([sample.completion_ids for sample in samples], torch.int64),
        "behavior_logprobs": _flat([sample.behavior_logprobs for sample in samples], torch.float64),
        "prompt_lengths": torch.tensor([len(sample.prompt_ids) for sample in samples], dtype=torch.int64),
        "completion_lengths": torch.tensor([len(sample.completion_ids) for sample in samples], dtype=torch.int64),
        "advantages": torch.tensor([sample.advantage for sample in samples], dtype=torch.float64),
        "is_masked": torch.tensor([sample.is_masked for sample in samples], dtype=torch.bool),
    }
    write_tensors(folder / _TENSORS, tensors)
    finite = [sample for sample in samples if not sample.is_masked]
    about = {"num_samples": len(samples), "num_masked": len(samples) - len(finite), "tensors": sorted(tensors)}
    (folder / _TEXT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return folder


def read_batch(folder: Path) -> list[Sample]:
    """Read what `write_batch` wrote."""
    tensors = load_file(folder / _TENSORS)
    prompts = tensors["prompt_ids"].split(tensors["prompt_lengths"].tolist())
    lengths = tensors["completion_lengths"].tolist()
    completions = tensors["completion_ids"].split(lengths)
    logprobs = tensors["behavior_logprobs"].split(lengths)
    rest = zip(tensors["advantages"].tolist(), tensors["is_masked"].tolist(), strict=True)
    return [
        Sample(tuple(prompt.tolist()), tuple(completion.tolist()), tuple(logprob.tolist()), advantage, is_masked)
        for prompt, completion, logprob, (advantage, is_masked) in zip(
            prompts, completions, logprobs, rest, strict=True
        )
    ]


def _flat(rows: Sequence[Sequence[int]] | Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([value for row in rows for value in row], dtype=dtype)
