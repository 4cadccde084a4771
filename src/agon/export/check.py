"""Does a merged folder say what base and adapter say? Both are loaded in float32 on the CPU, one after the other, and their logits compared."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from agon.errors import ModelError
from agon.export.trained import Trained
from agon.model.base import Base, load_base
from agon.model.merge import MergePlan
from agon.model.pair import AdapterPair

# Relative error of the logits that rounding the weights may bring, by the number format they were written in.
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Enough of a real prompt, and some tokens of all sorts: a short prompt of a base with few symbols meets few of its weights.
_PROMPT_TOKENS, _MADE_UP_TOKENS = 48, 16


@dataclass(frozen=True, slots=True)
class Expected:
    """The logits at every one of some tokens: of the bare base, and of the base with each adapter."""

    tokens: tuple[int, ...]
    base: Float[Tensor, "seq vocab"]
    adapted: Mapping[str, Float[Tensor, "seq vocab"]]


@dataclass(frozen=True, slots=True)
class Compared:
    """How a merged folder's logits compare with those of base and adapter, over some tokens.

    `error` is the size of their difference over the size of the logits (roots of sums of squares), `effect` the same for what the adapter
    changes of the base's: an error that is not far below it means that rounding took much of what was learned. `same_choice` is the share
    of tokens after which the likeliest next token is the same.
    """

    num_tokens: int
    error: float
    effect: float
    same_choice: float


def expected_logits(trained: Trained, plans: Mapping[str, MergePlan], prompt: Sequence[int]) -> Expected:
    """Compute the logits of base and adapters as a run computes them, and make sure that the weights to be changed are those it adapted.

    The tokens are the first of `prompt` and a few made-up ones.

    Raises:
        ModelError: a weight in the base's files is not the one that the loaded base has in the adapted layer.
    """
    settings = trained.settings.model.model_copy(update={"dtype": "float32", "device": "cpu"})
    base = load_base(settings)
    # What a checkpoint fills needs no calibrated noise first.
    pair = AdapterPair.create(base, trained.settings.adapter.model_copy(update={"init": "standard"}), seed=0)
    weights = {site.path: site.weight for site in pair.sites}
    for plan in plans.values():
        for path in plan.updates:
            if path not in weights or not torch.equal(weights[path], plan.base_weight(path).float()):
                raise ModelError(
                    f"the base's files hold other numbers for {path} than the loaded base: export the adapter without --merge"
                )
    tokens = (*prompt[:_PROMPT_TOKENS], *_made_up(base))
    adapted: dict[str, Tensor] = {}
    for name in plans:
        pair.load(name, trained.checkpoint / name)
        with pair.sampling(name):
            adapted[name] = _logits(base, tokens)
    return Expected(tokens, _logits(base, tokens), adapted)


def compare_merged(folder: Path, name: str, expected: Expected, *, trained: Trained, dtype: torch.dtype) -> Compared:
    """Load a merged folder and compare its logits with those of base and adapter `name`.

    Raises:
        ModelError: they differ by more than rounding to `dtype` explains.
    """
    # The base's memory, before another model of its size is loaded.
    gc.collect()
    settings = trained.settings.model.model_copy(
        update={"base": str(folder), "revision": None, "dtype": "float32", "device": "cpu"}
    )
    merged = _logits(load_base(settings), expected.tokens)
    own = expected.adapted[name]
    compared = Compared(
        num_tokens=len(expected.tokens),
        error=_distance(merged, own),
        effect=_distance(expected.base, own),
        same_choice=float((merged.argmax(dim=-1) == own.argmax(dim=-1)).float().mean()),
    )
    if not compared.error <= _TOLERANCE[dtype]:  # a NaN must fail as well
        raise ModelError(
            f"the merged weights of {name} give logits that differ from base and adapter by {compared.error:.2g} of their size, more "
            f"than the {_TOLERANCE[dtype]:g} that {_short(dtype)} may cost: take --dtype f32, or export the adapter without --merge"
        )
    return compared


@torch.no_grad()
def _logits(base: Base, prompt: Sequence[int]) -> Float[Tensor, "seq vocab"]:
    return base.model(torch.tensor([list(prompt)]), use_cache=False).logits[0].float().clone()


def _made_up(base: Base) -> tuple[int, ...]:
    vocabulary = base.model.get_input_embeddings().weight.shape[0]
    return tuple((7919 * place + 13) % vocabulary for place in range(_MADE_UP_TOKENS))


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).double().norm() / other.double().norm().clamp(min=1e-30))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
