from __future__ import annotations

import pytest

from agon.cli.main import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "0,x"], "'0,x' is no list of whole numbers: write 0,1,2"),
        (["--seeds=-1"], "'-1' holds a negative seed"),
        (["--parallel", "0"], "'0' is no number of processes: write 1 or more"),
        (["--methods", "agon,,grpo"], "--methods: it is empty"),
        ([], "presets: quickstart"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line_with_exit_code_2(capsys, words, told):
    try:
        code = main(["ablate", "no-such-preset", *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_a_recipe_that_describes_a_matrix_cannot_be_trained_as_one_run(capsys):
    assert main(["train", "matrix-quickstart", "--dry-run"]) == 2
    assert "start it with `agon ablate`" in capsys.readouterr().err


REFUSED = """
[evaluation]
temperature = {temperature}
[matrix]
seeds = [0]
base = ["single"]
pair = ["likeliest"]
[[matrix.arms]]
name = "agon"
"""


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_dry_run_refuses_what_a_start_would_in_the_same_line(tmp_path, capsys, words):
    recipe, out = tmp_path / "m.toml", tmp_path / "out"
    command = ["ablate", str(recipe), "--out", str(out), "--dry-run", *words]
    recipe.write_text(REFUSED.format(temperature=0.0))
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("agon: evaluation 'likeliest': evaluation.temperature is 0, where every draft is as")
    assert printed.err.count("\n") == 1
    recipe.write_text(REFUSED.format(temperature=0.5))
    assert main(command) == 0
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 1, "output folder {out} is not empty (notes.txt): give another --out"),
        (["--resume"], 2, "{out} holds no matrix to resume: start it without --resume"),
    ],
)
def test_a_dry_run_refuses_a_folder_that_holds_something_else(tmp_path, capsys, words, code, told):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["ablate", "matrix-quickstart", "--out", str(tmp_path), "--dry-run", *words]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"agon: {told.format(out=tmp_path)}\n"
