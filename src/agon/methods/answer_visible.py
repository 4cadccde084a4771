"""Answer visible: the challenger sees the draft's answer while training. What withholding is for.

Control of Agon, arXiv:2607.07690.
"""

from __future__ import annotations

from agon.methods.agon import Agon


class AnswerVisible(Agon):
    """Agon without withholding."""

    name = "answer-visible"
    shows_answer = True
