"""Dr. GRPO: no division by the group's deviation, none by a completion's length.

Paper: arXiv:2503.20783.
"""

from __future__ import annotations

from types import MappingProxyType

from agon.methods.solo import Solo


class DrGrpo(Solo):
    """GRPO with advantages that are only centred, and a loss summed over tokens and divided by a constant."""

    name = "dr_grpo"
    fixed = MappingProxyType({"loss": "dr_grpo", "advantage": "group_mean"})
