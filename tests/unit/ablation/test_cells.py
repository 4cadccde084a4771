from __future__ import annotations

import pytest

from agon.ablation import cells
from agon.ablation.cells import Cell, CellError, count_steps, train_cells
from agon.config import Settings
from agon.errors import RunError
from agon.recipe import load_recipe

CELLS = [Cell(name, Settings()) for name in ("one", "two", "three")]


@pytest.fixture
def fake_cells(monkeypatch, make_job):
    """Let cells be fake ones; returns a function (steps, name of the one that fails)."""

    def use(steps: int, failing: str = "none"):
        monkeypatch.setattr(cells, "_job", lambda parent, cell: make_job(cell.name, steps, failing))

    return use


def test_every_cell_is_trained_and_progress_is_told(tmp_path, fake_cells):
    fake_cells(3)
    told = []
    train_cells(tmp_path, CELLS, num_parallel=2, on_progress=told.append)
    assert told[-1] == {"one": 3, "two": 3, "three": 3}


def test_a_cell_that_fails_is_named_with_its_last_line(tmp_path, fake_cells):
    fake_cells(1, failing="one")
    with pytest.raises(CellError, match=r"cell one: disk is full \(log: .*one\.log\)") as caught:
        train_cells(tmp_path, CELLS, num_parallel=1)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "two").exists()


def test_a_cell_gets_its_settings_as_a_recipe(tmp_path):
    settings = Settings.model_validate({"train": {"steps": 7}})
    recipe = cells.write_cell_recipe(tmp_path, "one", settings)
    assert recipe == tmp_path / "recipes" / "one.toml"
    assert load_recipe(recipe) == settings


def test_a_recipe_is_not_written_through_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "recipes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"recipes is a link to .*elsewhere, outside of the run folder"):
        cells.write_cell_recipe(tmp_path / "matrix", "one", Settings())
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_run_that_has_not_begun_has_no_steps_and_is_not_finished(tmp_path):
    assert count_steps(tmp_path / "nothing") == 0
    assert not cells.is_finished(tmp_path / "nothing", Settings())
