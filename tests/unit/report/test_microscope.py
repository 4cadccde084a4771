import json
import random

import pytest

from agon.errors import RunError
from agon.evaluation.alarms import Alarm
from agon.evaluation.exchanged import exchanged
from agon.evaluation.microscope import Microscope, write_microscope
from agon.evaluation.policies import Divergence
from agon.evaluation.singles import compare_singles
from agon.model.divergence import Subspaces, Updates
from agon.report.collect import collect
from agon.report.microscope import Subject, microscope_view
from agon.report.page import render

ALARM = {"name": "copying", "about": "a-b", "message": "it repeats <b>what</b> it reads", "values": {"copy": 0.8}}


@pytest.fixture
def runs(tmp_path, fake):
    """Two examined trainings and one that was not."""
    made = [fake.run(tmp_path / f"agon-s{seed}", "agon", seed=seed, steps=2) for seed in range(3)]
    for path, found in zip(
        made, (fake.microscope(), fake.microscope(accuracies=(0.7, 0.7), alarms=[ALARM])), strict=False
    ):
        (path / "microscope.json").write_text(json.dumps(found))
    return collect(made).runs


def numbers(line):
    return {name: None if value is None else round(value.value, 6) for name, value in line.values.items()}


def test_an_examination_is_read_number_by_number(runs):
    view = microscope_view([Subject("Agon", [(0, runs[0])])])
    assert numbers(view.pairs[0]) == {
        "A alone": 0.6,
        "B alone": 0.5,
        "B − A": -0.1,
        "union": 0.7,
        "union − pass@2": 0.05,
        "union − stronger's": -0.01,
        # a-b: .4 - .3, b-a: .5 - .3
        "conversion − blind": 0.15,
        # b-a has no right draft: a-b alone, .1 - .2
        "regression − blind": -0.1,
        "copies − blind": 0.03,
        "discernment": 0.9,
        "Q": 0.5,
        "rho": 0.5,
        "error overlap": 0.5,
        # mean of .7 and .9
        "error overlap, same": 0.8,
        "double fault": 0.5,
        # A's text: KL(A, B) = .02. B's text: KL(B, A) is the reverse of .04, which is .05.
        "KL(A‖B)": 0.02,
        "KL(B‖A)": 0.05,
        # mean of .02 / 4 and .04 / 4
        "JS": 0.0075,
        "KL(A‖base)": 0.02,
        "KL(B‖base)": 0.04,
        "distance": 1.3,
        "cosine": None,
        "angle": 61.5,
    }
    assert (view.pairs[0].detail, view.trainings, view.num_examined) == ("seed 0", (), 1)
    assert view.pairs[0].values["Q"][1:] == (0.0, 0.1)
    assert view.pairs[0].values["rho"][1:] == (None, None)


def test_what_an_examination_writes_can_be_read(runs, fake):
    rng = random.Random(0)
    sides = {way: [[fake.match(rng, at) for _ in range(2)] for at in range(30)] for way in ("a-b", "b-a")}
    answers = {
        name: [[match.draft for match in of_problem] for of_problem in sides[way]]
        for name, way in (("A", "a-b"), ("B", "b-a"))
    }
    policies = [
        Divergence(
            text, first, second, 0.1, 0.2, 0.03, 0.9, 500, dict.fromkeys(("kl", "kl_reverse", "js", "top1_agreement"))
        )
        for text in "AB"
        for first, second in (("A", "B"), ("A", "base"), ("B", "base"))
    ]
    written = Microscope(
        task="countdown-lite",
        split="test",
        method="agon",
        protocol="cascade",
        checkpoint="step-000002",
        n=30,
        samples=2,
        seed=0,
        temperature=0.6,
        top_p=0.95,
        exchange={
            way: exchanged(matches, answers["B" if way == "a-b" else "A"], seed=0) for way, matches in sides.items()
        },
        singles=compare_singles(answers, seed=0),
        policies=policies,
        updates=Updates(1.3, 0.1, 2.0, 1.9, Subspaces(0.3, 0.25, 9.0, 61.5, 90.0, 28), None),
        alarms=[Alarm("copying", "a-b", "it copies", {"copy": 0.8})],
    )
    write_microscope(runs[0].path, written)
    (line,) = microscope_view([Subject("Agon", [(0, runs[0])])]).pairs
    right = [attempt.is_correct for of_problem in answers["A"] for attempt in of_problem]
    assert line.values["A alone"].value == pytest.approx(sum(right) / 60)
    assert line.values["union"].value == written.singles.union.union
    assert line.values["Q"].value == written.singles.overlap["A-B"].measures.q
    assert (line.values["KL(A‖B)"].value, line.values["KL(B‖A)"].value, line.num_alarms) == (0.1, 0.2, 1)


def test_trainings_of_a_pair_are_averaged_between_the_smallest_and_largest(runs):
    view = microscope_view([Subject("Agon", list(enumerate(runs)))])
    assert view.pairs[0].values["A alone"] == pytest.approx((0.65, 0.6, 0.7))
    assert (view.pairs[0].detail, view.pairs[0].num_alarms) == ("2 trainings", 1)
    assert [line.detail for line in view.trainings] == ["seed 0", "seed 1"]
    assert (view.num_examined, view.num_runs) == (2, 3)
    assert [(alarm.title, alarm.name, alarm.times, alarm.of) for alarm in view.alarms] == [("Agon", "copying", 1, 2)]
    assert view.conditions == ["290 problems of test (countdown-lite), 2 samples each, temperature 0.6, cascade"]


def test_without_an_examination_there_is_no_microscope(runs):
    assert microscope_view([Subject("Agon", [(2, runs[2])])]) is None
    assert '<section id="microscope">' not in render(collect([runs[2].path]))


def test_a_single_run_shows_its_examination_and_alarms_as_text(runs):
    source = render(collect([runs[1].path]))
    assert '<section id="microscope">' in source
    assert "agon-s1: copying</b> (a-b) it repeats &lt;b&gt;what&lt;/b&gt; it reads" in source
    assert "Every training" not in source
    quiet = render(collect([runs[0].path]))
    assert "No alarm sounded" in quiet
    assert "−0.100" in quiet


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format version 2"),
        ({"singles": {}}, "is damaged"),
        ({"policies": []}, "is damaged"),
        ({"alarms": [{}]}, "is damaged"),
    ],
)
def test_a_damaged_examination_is_named(runs, fake, change, message):
    (runs[0].path / "microscope.json").write_text(json.dumps({**fake.microscope(), **change}))
    with pytest.raises(RunError, match=rf"agon-s0/microscope\.json .*{message}"):
        microscope_view([Subject("Agon", [(0, runs[0])])])
