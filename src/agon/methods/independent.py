"""Independent learners: two adapters on a pair's budget that never meet, neither by a draft that is read nor by a bonus.

The term is multi-agent learning's (Tan, Multi-Agent Reinforcement Learning: Independent vs. Cooperative Agents, ICML 1993). Against it
stands what an exchange adds; against `grpo`, what it costs that each adapter learns from half the rollouts, in groups of half the size.
"""

from __future__ import annotations

from agon.methods.cooperative import Cooperative


class Independent(Cooperative):
    """Neither exchange nor competition: both answers of a match know the problem alone."""

    name = "independent"
    reads = "hidden"
