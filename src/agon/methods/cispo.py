"""CISPO: the ratio is capped outside the gradient, so that no token loses its gradient. Four optimiser steps a batch.

Paper: MiniMax-M1, arXiv:2506.13585; the cap of 5 is ScaleRL's, arXiv:2510.13786.
"""

from __future__ import annotations

from types import MappingProxyType

from agon.methods.solo import Solo


class Cispo(Solo):
    """GRPO with a capped ratio as a weight; on-policy it is the token mean without a clip."""

    name = "cispo"
    fixed = MappingProxyType({"loss": "cispo", "minibatches": 4})
