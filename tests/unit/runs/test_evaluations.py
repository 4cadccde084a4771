import json

import pytest

from agon.errors import RunError
from agon.runs import RunFolder, read_evaluation, read_evaluations, write_evaluation
from agon.runs.evaluations import has_doubled_cap, protocol_title

RESULT = {
    "task": "toy",
    "split": "test",
    "protocol": "cascade",
    "direction": None,
    "method": "agon",
    "title": "Agon",
    "n": 2,
    "samples": 1,
    "seed": 0,
    "accuracy": 0.5,
    "conversion": None,
    "temperature": 1,
    "doubled_cap": False,
    "caps": {"draft": 44, "challenge": None},
    "prompts": {"wording": "plain-v1", "withholding": "drop"},
    "tokens": {"draft": 3.5, "total": 7},
    "outcomes": {"correct": 1, "wrong": 1},
    "interval": {"low": 0.01, "high": 0.99, "level": 0.95, "kind": "clopper-pearson", "unit": "problem"},
    "intervals": {"conversion": {"low": 0, "high": 1, "n": 2}},
    "players": {"drafters": ["A", None], "challenger": None},
    "per_problem": [{"id": "p", "correct": [True]}, {"id": "q", "correct": [0]}],
    "notes": ["direction a-b chosen"],
    "measured": {"checkpoint": "step-000002"},
}


def test_a_result_is_read_back_as_it_was_written_with_its_label(tmp_path):
    with RunFolder.create(tmp_path / "run", settings={}) as run:
        file = write_evaluation(run.path, "mine", RESULT)
    assert read_evaluation(file) == {"label": "mine", **RESULT}
    assert read_evaluations(run.path) == [{"label": "mine", **RESULT}]


TEXTS = ("task", "split", "protocol", "direction", "method", "title")
NUMBERS = ("accuracy", "conversion", "temperature")
WRONG = [
    *((name, value) for name in RESULT if name != "measured" for value in ("x", -1.5, True, [[]])),
    ("tokens", {"draft": "x"}),
    ("outcomes", {"wrong": 1.5}),
    ("caps", {"draft": True}),
    ("prompts", {"wording": 1}),
    ("interval", {"low": "x", "high": 1}),
    ("intervals", {"conversion": {"low": []}}),
    ("players", {"drafters": "A"}),
    ("per_problem", [{"id": 3, "correct": [True]}]),
    ("per_problem", [None]),
    ("notes", [1]),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pair
        for pair in WRONG
        if pair not in (*((name, "x") for name in TEXTS), *((name, -1.5) for name in NUMBERS), ("doubled_cap", True))
    ],
)
def test_an_entry_of_another_form_is_named(tmp_path, name, value):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({**RESULT, name: value}))
    with pytest.raises(RunError, match=rf"mine\.json is no evaluation: {name} is .*evaluate again, or remove the file"):
        read_evaluation(file)


def test_what_an_older_agon_did_not_write_may_be_absent(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text('{"accuracy": 0.5}')
    assert read_evaluation(file) == {"label": "mine", "accuracy": 0.5}


@pytest.mark.parametrize(
    ("protocol", "label", "is_doubled"),
    [
        ("single", "single-doubled-cap", True),
        ("single", "single-a-doubled-cap-dev", True),
        ("majority", "majority-a-k4-doubled-cap", True),
        ("self-cascade", "t-test-self-cascade-a-doubled-cap-x2-step-000060", True),
        ("single", "single-a", False),
        # a run of that name, whose own cap is twice that of another
        ("single", "grpo-doubled-cap", False),
        ("single", "grpo-doubled-cap-test-single-a", False),
    ],
)
def test_an_older_result_says_by_its_label_that_its_cap_was_doubled(protocol, label, is_doubled):
    assert has_doubled_cap({"protocol": protocol, "label": label}) is is_doubled


def test_what_a_result_says_of_its_cap_counts_before_its_label():
    assert has_doubled_cap({"protocol": "single", "label": "mine", "doubled_cap": True})
    assert not has_doubled_cap({"protocol": "single", "label": "single-doubled-cap", "doubled_cap": False})


def test_a_protocol_is_named_with_its_doubled_cap():
    assert protocol_title({"protocol": "moa", "label": "mine", "doubled_cap": True}) == "moa, doubled cap"
    assert protocol_title({"protocol": "single", "label": "single-a"}) == "single"
