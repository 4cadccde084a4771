import json

import pytest

from agon.errors import RunError
from agon.runs import RunFolder, child_runs, default_run, folder_kind, read_json, read_manifest
from agon.runs.matrix import Matrix, MatrixArm, MatrixCell, read_matrix, write_matrix

MATRIX = Matrix(
    recipe="small",
    seeds=(0, 1),
    arms=(
        MatrixArm("grpo", "GRPO", "grpo", "baseline"),
        MatrixArm("agon-w3", "Agon, bonus 3", "agon", "exchange", {"reward.conversion": 3.0}),
        MatrixArm("same", "GRPO again", "grpo", "control"),
    ),
    cells=(
        MatrixCell("grpo", 0, "cells/grpo-s0"),
        MatrixCell("grpo", 1, "cells/grpo-s1"),
        MatrixCell("agon-w3", 0, "cells/agon-w3-s0"),
        MatrixCell("same", 0, "cells/grpo-s0"),
    ),
    rivals=("grpo",),
)


def test_a_matrix_is_read_back_as_it_was_written(tmp_path):
    write_matrix(tmp_path, MATRIX)
    assert read_matrix(tmp_path) == MATRIX
    content = read_json(tmp_path / "matrix.json")
    assert content["format_version"] == 1
    assert content["base"] == "base"
    assert content["arms"][1]["set"] == {"reward.conversion": 3.0}


def test_a_matrix_stands_for_its_runs_each_once(tmp_path):
    write_matrix(tmp_path, MATRIX)
    assert folder_kind(tmp_path) == "matrix"
    assert child_runs(tmp_path) == [tmp_path / "cells" / name for name in ("grpo-s0", "grpo-s1", "agon-w3-s0")]


def test_where_one_run_is_needed_a_matrix_is_refused_with_some_of_its_cells(tmp_path):
    write_matrix(tmp_path, MATRIX)
    RunFolder.create(tmp_path / "cells" / "grpo-s0", settings={}).close()
    for reader in (default_run, read_manifest):
        with pytest.raises(RunError, match=r"holds several runs \(cells/grpo-s0, .*\): give one of them"):
            reader(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seeds", None),
        ("arms", [{"name": "grpo"}]),
        ("cells", [{"arm": "grpo", "seed": 0, "run": "../elsewhere"}]),
        ("cells", [{"arm": "grpo", "seed": 0, "run": "/etc"}]),
        ("base", ""),
        ("arms", []),
    ],
)
def test_a_damaged_matrix_is_named(tmp_path, name, value):
    write_matrix(tmp_path, MATRIX)
    content = read_json(tmp_path / "matrix.json")
    (tmp_path / "matrix.json").write_text(json.dumps({**content, name: value}))
    with pytest.raises(RunError, match=r"matrix\.json .*restore it from a copy"):
        read_matrix(tmp_path)


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"format_version": 2}, "reads no newer one than 1: upgrade agon"),
        ({"format_version": 0}, "reads none before 1: use agon"),
        ({"format": "agon run"}, "says that it is 'agon run' and not 'agon matrix'"),
    ],
)
def test_a_matrix_of_another_format_is_refused_with_the_remedy(tmp_path, change, remedy):
    write_matrix(tmp_path, MATRIX)
    content = read_json(tmp_path / "matrix.json")
    (tmp_path / "matrix.json").write_text(json.dumps({**content, **change}))
    for reader in (read_matrix, child_runs):
        with pytest.raises(RunError, match=remedy):
            reader(tmp_path)
