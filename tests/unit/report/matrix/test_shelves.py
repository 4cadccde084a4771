import pytest

from agon.report.matrix import shelves as module
from agon.report.matrix.shelves import choose_shelves
from agon.report.matrix.tree import Tree


@pytest.fixture
def tree(study, fake, tmp_path):
    return Tree.of(study.matrix(fake, tmp_path / "m", seeds=(0, 1), steps=2, n=6))


def test_the_reader_holds_each_arms_first_training_as_it_is_to_be_used(tree):
    chosen = choose_shelves(tree)
    assert [shelf.title for shelf in chosen.shelves] == [
        "untrained base: single",
        "GRPO: single A, seed 0",
        "GRPO, doubled cap: single A, seed 0",
        "cooperative exchange: cascade b-a, seed 0",
        "Agon: cascade b-a, seed 0",
    ]
    assert {len(shelf.matches) for shelf in chosen.shelves} == {6}
    # One of the base, two seeds of one evaluation (GRPO twice), two seeds of three evaluations (two pairs): 1 + 4 + 12, less the five.
    assert chosen.num_left_out == 12
    # Agon: no rival, and there is an exchange to read.
    assert chosen.start == 4


def test_the_size_is_bounded_and_every_match_counted(tree, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 20_000)
    small = choose_shelves(tree)
    assert 0 < sum(shelf.num_bytes for shelf in small.shelves) <= 20_000
    assert {shelf.counts.total for shelf in small.shelves} == {6}
    monkeypatch.setattr(module, "MAX_MATCHES", 2)
    assert {len(shelf.matches) for shelf in choose_shelves(tree).shelves} <= {0, 1, 2}


def test_rows_without_stored_matches_have_no_shelf(study):
    row = study.row("grpo", "GRPO", "a", protocol="single", accuracy=0.6)
    tree = study.tree([study.arm("grpo", "GRPO", "grpo", "baseline", ["r"], "grpo:single:a")], [row])
    chosen = choose_shelves(Tree.of(tree))
    assert (chosen.shelves, chosen.start, chosen.num_left_out) == ((), None, 0)
