"""When requests that wait join those that run: reading their prompts costs a step, or a CUDA graph, of all that run."""

from __future__ import annotations

RUNNING_PER_JOIN = 16
"""Requests join when there is one for so many that run."""
MAX_HELD_STEPS = 4
"""Where nobody knows if more will come, they join after so many steps all the same."""


class Patience:
    """Says, step by step, whether those that wait should join."""

    def __init__(self) -> None:
        self._num_held = 0

    def is_over(self, num_waiting: int, num_running: int) -> bool:
        """Say whether to let them join at this step; if so, it begins anew."""
        if not num_waiting:
            return False
        if num_waiting * RUNNING_PER_JOIN < num_running and self._num_held < MAX_HELD_STEPS:
            self._num_held += 1
            return False
        self._num_held = 0
        return True
