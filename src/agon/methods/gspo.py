"""GSPO: one clipped ratio a sequence. On-policy it is GRPO, so that it takes four optimiser steps a batch of rollouts.

Paper: arXiv:2507.18071 (four minibatches a batch, clip 3e-4 and 4e-4).
"""

from __future__ import annotations

from types import MappingProxyType

from agon.methods.solo import Solo


class Gspo(Solo):
    """GRPO with the sequence's geometric mean ratio."""

    name = "gspo"
    fixed = MappingProxyType({"loss": "gspo", "minibatches": 4})
