"""Hidden opponents: Agon's bonus over the own match's draft, which the challenger cannot see.

The bonus then cannot depend on anything the challenger knows: noise on correctness (docs/methods.md).
"""

from __future__ import annotations

from agon.methods.agon import Agon


class Hidden(Agon):
    """Competition with an opponent for each rollout, without exchange."""

    name = "hidden"
    reads = "hidden"
