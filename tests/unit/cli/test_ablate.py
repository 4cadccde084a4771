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
