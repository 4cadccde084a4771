"""A task of your own, in one file: a function that gives rows, which are read like those of a data file.

These are countdowns that take a difference and a product, in the symbols that the embedded base knows. `numbers` and `target` are what
the verifier `expression` needs of a row. A task in words for another model differs in nothing but its questions.

    PYTHONPATH=examples agon data check own_task:rows --set task.verifier=expression
    PYTHONPATH=examples agon train quickstart-agon --set task.name=own_task:rows --set task.verifier=expression --out runs/own
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from agon.countdown_text import LARGEST_NUMBER, LARGEST_VALUE, draft_question


def rows(num_problems: int, seed: int) -> Iterator[dict[str, Any]]:
    """Give `task.num_generated` rows from `task.generator_seed`: the same for the same two numbers, in every process."""
    draw = random.Random(seed)
    while num_problems > 0:
        a, b, c = sorted((draw.randint(1, LARGEST_NUMBER) for _ in range(3)), reverse=True)
        ways = {f"({x}-{y})*{z}": (x - y) * z for x, y, z in [(a, b, c), (a, c, b), (b, c, a)]}
        target = draw.choice(list(ways.values()))
        if 1 <= target <= LARGEST_VALUE:
            # The first way to the target, so that the same question always has the same answer.
            answer = next(way for way, value in ways.items() if value == target)
            question = draft_question((a, b, c), target)
            yield {"question": question, "answer": answer, "numbers": [a, b, c], "target": target}
            num_problems -= 1
