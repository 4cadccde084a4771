from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from agon.cli.evaluate import evaluate
from agon.cli.evaluations import check_all, measure_each, wishes_of
from agon.cli.main import build_parser, main
from agon.errors import ConfigError, DataError
from agon.evaluation.load import Opened
from agon.recipe import settings_from
from agon.records import Problem
from agon.tasks.data import TaskData

ONE = (Problem(id="p", question="q", gold="1", task="t", verifier="exact"),)
TASK = TaskData(name="t", train=(), dev=ONE, test=ONE)


def _options(labels: str, *words: str) -> Namespace:
    return build_parser().parse_args(["eval", "runs/x", "--evaluations", labels, *words])


def _check(labels: str, *words: str, task: TaskData = TASK, method: str | None = "agon") -> None:
    settings = settings_from({"train": {"method": method or "agon"}}, source="test")
    check_all(wishes_of(_options(labels, *words)), settings, task, is_trained=method is not None)


def test_labels_are_measured_in_the_order_given_and_filed_as_one_alone_would_be():
    wishes = wishes_of(_options("single-a, cascade-b-a,moa-a-k2-doubled-cap"))
    assert list(wishes) == ["single-a", "cascade-b-a", "moa-a-k2-doubled-cap"]
    assert {wish.label for wish in wishes.values()} == {None}
    assert [wish.has_doubled_cap for wish in wishes.values()] == [False, False, True]


def test_a_labels_own_dev_stands_and_the_others_take_the_split_that_is_given():
    labels = "single-a,single-b-dev"
    for words, splits in (
        ((), ["test", "dev"]),
        (("--split", "test"), ["test", "dev"]),
        (("--split", "dev"), ["dev"] * 2),
    ):
        assert [wish.split for wish in wishes_of(_options(labels, *words)).values()] == splits


@pytest.mark.parametrize("labels", ["", " ", ",", "single-a,", "single-a,,single-b"])
def test_an_empty_label_is_a_mistake_of_usage(labels, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["eval", "runs/x", "--evaluations", labels])
    assert ended.value.code == 2
    assert "--evaluations: it is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("single-a,sngle-a", "evaluation 'sngle-a' is not known: write PROTOCOL"),
        ("single-a,cascade-a-b,single-a", "--evaluations names single-a twice"),
        ("single-a,microscope", "names microscope, which is no protocol: .* `agon eval runs/x --microscope`"),
    ],
)
def test_what_no_label_may_be_is_refused_before_anything_is_opened(labels, said):
    # runs/x does not exist, which would be told of next
    with pytest.raises(ConfigError, match=said):
        evaluate(_options(labels))


@pytest.mark.parametrize(
    "words",
    [
        ("--protocol", "single"),
        ("--direction", "a-b"),
        ("--adapter", "a"),
        ("--drafts", "2"),
        ("--layers", "1"),
        ("--doubt", "likelihood"),
        ("--threshold", "dev"),
        ("--label", "mine"),
        ("--microscope",),
    ],
)
def test_what_a_label_says_is_refused_beside_the_list(words):
    with pytest.raises(ConfigError, match=f"^{words[0]} does not go with --evaluations, whose labels"):
        evaluate(_options("single-a", *words))


@pytest.mark.parametrize(
    ("labels", "method", "said"),
    [
        ("single-a,cascade-a-b", "grpo", "^evaluation 'cascade-a-b': .* needs two trained adapters"),
        ("self-cascade,single-a", None, "^evaluation 'single-a': .* a base model has no adapters"),
        ("single-a,majority-a-k1", "agon", "^evaluation 'majority-a-k1': the number of drafts is 1"),
        ("single,cascade-a-b,single-a", "agon", "names single and single-a, which can come to the same measurement"),
        ("cascade-a-b,cascade-b-a,cascade", "agon", "names cascade-a-b and cascade, which can come to the same"),
    ],
)
def test_every_label_is_checked_before_a_model_is_loaded(labels, method, said):
    with pytest.raises(ConfigError, match=said):
        _check(labels, method=method)


@pytest.mark.parametrize(
    ("label", "method", "said"),
    [
        (
            "cascade",
            "agon",
            "the development split of t is empty: choose with -a-b or -b-a in its label, or raise task.dev_share",
        ),
        (
            "selective-a-b",
            "agon",
            "the development split of t is empty: measure it alone, with a number as --threshold, or raise task.dev_share",
        ),
        (
            "cascade-a-b",
            "grpo",
            "cascade needs two trained adapters, but this run trained one: use self-cascade, moa or majority",
        ),
        ("cascade-a", "agon", "-a does not go with cascade: choose with -a-b or -b-a"),
        ("single-b-a", "agon", "-b-a does not go with single: choose with -a or -b"),
        ("placebo-a-b", None, "-a-b was asked for, but the base plays every part: leave it out"),
        ("single-a-b", None, "-a-b was asked for, but the base plays every part: leave it out"),
        ("single-b-a", "grpo", "-b-a does not go with single: leave it out"),
        (
            "single-k2",
            None,
            "the number of drafts is 2, but only moa, majority, likeliest, selective take several: leave it out",
        ),
        ("moa-a-l0", "agon", "the number of layers is 0, but a match has at least one layer of drafts: give 1 or more"),
        (
            "cascade-a-b-agreement",
            "agon",
            "a doubt by agreement was asked for, but cascade has none: only selective has one",
        ),
        ("single-a", None, "-a was asked for, but a base model has no adapters: leave it out"),
        ("single-b", "grpo", "-b was asked for, but this run trained adapter A alone: use -a"),
    ],
)
def test_a_refused_label_names_what_can_be_changed_in_it_and_no_option_that_cannot_be_given(label, method, said):
    with pytest.raises(ConfigError) as refused:
        _check(label, task=TaskData(name="t", train=(), dev=(), test=ONE), method=method)
    assert str(refused.value) == f"evaluation '{label}': {said}"


def test_a_label_and_its_dev_are_the_same_on_the_development_split():
    _check("single-a,single-a-dev")
    with pytest.raises(ConfigError, match="names single-a and single-a-dev"):
        _check("single-a,single-a-dev", "--split", "dev")


def test_problems_are_looked_for_on_the_split_of_every_label():
    task = TaskData(name="t", train=(), dev=(), test=ONE)
    _check("single-a,cascade-a-b", task=task)
    with pytest.raises(DataError):
        _check("single-a,single-b-dev", task=task)
    with pytest.raises(ConfigError, match=r"^evaluation 'cascade': the development split of t is empty"):
        _check("single-a,cascade", task=task)


def test_the_room_of_every_label_is_looked_at_once_before_anything_is_sampled(make_session):
    session, engine = make_session(lambda prompt, request: "<answer>1</answer>", logprob=lambda request: 0.0)
    caps = {"max_draft_tokens": 60, "max_challenge_tokens": 60, "max_summary_tokens": 50}
    settings = settings_from({"rollout": caps, "train": {"method": "grpo"}}, source="test")
    opened = Opened(session, TASK, settings, Path("run/checkpoints/step-000004"))
    wishes = wishes_of(_options("single-a,single-a-doubled-cap"))
    engine.context_length = 121
    with pytest.raises(ConfigError, match=r"^evaluation 'single-a-doubled-cap': the context of 121 tokens leaves"):
        next(measure_each(opened, wishes))
    assert engine.requests == []
    engine.context_length = 200
    measuring = measure_each(opened, wishes)
    next(measuring)
    # Whoever looked again would see no room.
    engine.context_length = 121
    assert next(measuring).result["caps"] == {"draft": 120, "challenge": None, "summary": None}
