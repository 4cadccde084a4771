"""DAPO: clip-higher, token mean, and dynamic sampling: problems without a signal are replaced by further ones.

Every rollout of a replaced problem is charged to the budget, so that DAPO takes fewer steps on the same problems. Its soft overlong
punishment is a method of its own (`soft-overlong`); its overlong filter is the setting `train.mask_truncated`.
Paper: arXiv:2503.14476.
"""

from __future__ import annotations

from types import MappingProxyType

from agon.methods.solo import Solo


class Dapo(Solo):
    """GRPO on batches full of groups with a signal. Clip-higher acts off-policy only: four optimiser steps a batch."""

    name = "dapo"
    fixed = MappingProxyType({"loss": "dapo", "minibatches": 4})
    resamples = True
