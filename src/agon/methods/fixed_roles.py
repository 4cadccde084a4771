"""Fixed roles: A always drafts, B always challenges.

Ablation of Agon, arXiv:2607.07690 (its table 7: 52 against 61 with rotation).
"""

from __future__ import annotations

from agon.methods.agon import Agon


class FixedRoles(Agon):
    """Agon without rotation."""

    name = "fixed-roles"

    def players(self, step: int) -> tuple[str, str]:
        """A drafts, B challenges."""
        return "A", "B"
