import random
from collections import Counter
from dataclasses import replace

import pytest

from agon.report.exchange import CELLS, CellCounts, cell_of


@pytest.mark.parametrize(
    ("drafts", "final", "cell"),
    [
        (("wrong",), "correct", "wrong-right"),
        (("correct",), "unparsed", "right-wrong"),
        (("correct",), "correct", "right-right"),
        (("truncated",), "timeout", "wrong-wrong"),
        (("wrong", "correct"), "wrong", "right-wrong"),
        (("wrong", "error"), "correct", "unjudged"),
        (("correct",), None, "right"),
        (("unparsed",), None, "wrong"),
    ],
)
def test_a_match_falls_into_one_cell(fake, drafts, final, cell):
    rng = random.Random(0)
    match = replace(
        fake.match(rng, 0),
        drafts=tuple(fake.attempt("drafter", "A", outcome, rng=rng) for outcome in drafts),
        challenge=None if final is None else fake.attempt("challenger", "B", final, rng=rng),
    )
    assert cell_of(match) == cell
    assert cell in CELLS


def test_the_cells_add_up_and_give_the_rates():
    counts = CellCounts.of(Counter({"wrong-right": 31, "wrong-wrong": 79, "right-right": 160, "right-wrong": 20}))
    assert counts.total == 290
    assert counts.converted == (31, 110)
    assert counts.regressed == (20, 180)
