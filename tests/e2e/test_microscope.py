from __future__ import annotations

import json

import pytest

from agon.runs import read_json


def test_the_pair_of_a_run_is_examined_and_filed_in_its_folder(agon, trained, capsys):
    assert agon("eval", trained, "--microscope", "--split", "dev", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == read_json(trained / "microscope.json")
    assert (printed["n"], printed["samples"], printed["split"], printed["method"]) == (6, 2, "dev", "agon")
    # "noise" starts B apart from the base, four steps move both.
    assert printed["updates"]["distance"] > 0
    assert [(row["text"], row["first"], row["second"]) for row in printed["policies"]] == [
        (text, first, second) for text in "AB" for first, second in (("A", "B"), ("A", "base"), ("B", "base"))
    ]
    assert agon("eval", trained, "--microscope", "--split", "dev") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("countdown-lite dev, the pair of agon: n=6, samples=2")
    assert any("without reading" in line for line in lines)
    assert any("A-A: Q" in line for line in lines)
    # An evaluation it is not: no result file of it stands among them.
    assert not list((trained / "evaluations").glob("*microscope*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--protocol", "single"), "--protocol does not go with --microscope"),
        (("--direction", "a-b"), "--direction does not go with --microscope"),
        (("--task", "gsm8k"), "--task does not go with --microscope"),
        (("--samples", "1"), "--samples is 1, but a pair is examined by pass@2"),
    ],
)
def test_what_chooses_a_protocol_is_refused_beside_it(agon, trained, capsys, words, said):
    assert agon("eval", trained, "--microscope", *words) != 0
    assert said in capsys.readouterr().err


def test_a_base_is_refused(agon, capsys, tmp_path):
    assert agon("eval", tmp_path / "gone", "--microscope") != 0
    assert "does not exist" in capsys.readouterr().err
