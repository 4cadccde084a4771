"""The example for TRL: whose turn it is, what a challenger reads, and the rewards of agon's own method."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from agon.cli.common import settings_of
from agon.errors import ConfigError
from agon.methods.base import StepView
from agon.methods.registry import method_named
from agon.model.base import load_base
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.rewards.terms import RewardWeights

SCRIPT = Path(__file__).parents[3] / "examples" / "trl_agon.py"
SMALL = ["train.steps=2", "train.problems_per_step=3", "train.group_size=4", "train.warmup_share=0.0"]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("trl_agon", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def snapshot(model):
    """Every parameter, by the adapter it belongs to."""
    owners = {name: name.split(".")[-2] if ".lora_" in name else "base" for name, _ in model.named_parameters()}
    return {name: (owners[name], parameter.detach().clone()) for name, parameter in model.named_parameters()}


def moved(before, after):
    return {owner for name, (owner, tensor) in after.items() if not tensor.equal(before[name][1])}


def test_in_two_steps_each_adapter_learns_in_its_turn_and_challenge_i_reads_draft_i(
    example, tmp_path, monkeypatch, capsys
):
    rows, snapshots = [], []

    class Recorded(example.Exchange):
        def rollout(self, ids, trainer):
            snapshots.append(snapshot(trainer.model))
            rows.append((ids, super().rollout(ids, trainer), self))
            return rows[-1][1]

        def summary(self, problem, draft):
            assert draft.completion.adapter == ("A" if len(rows) == 1 else "B")
            return super().summary(problem, draft)

    monkeypatch.setattr(example, "Exchange", Recorded)
    trainer = example.train(settings_of("quickstart-agon", SMALL), str(tmp_path), use_cpu=True)
    snapshots.append(snapshot(trainer.model))

    assert [moved(*pair) for pair in itertools.pairwise(snapshots)] == [{"A"}, {"B"}, {"B"}, {"A"}]
    said = [line.split(": correctness")[0] for line in capsys.readouterr().out.splitlines()]
    turns = ["step 0: A drafts", "step 0: B challenges", "step 1: B drafts", "step 1: A challenges"]
    assert [line for line in said if line.startswith("step")] == turns
    (first, _, _), (second, _, _), (drafted, _, _), (challenged, found, exchange) = rows
    assert first == second != drafted == challenged
    # Three problems, four rows of each side by side.
    assert [len(set(first[i : i + 4])) for i in (0, 4, 8)] == [1, 1, 1]
    assert len(set(first)) == 3
    texts = [exchange.summarizer.tokenizer.decode(ids) for ids in found["prompt_ids"]]
    shown = [
        exchange.summary(exchange.problems[id_], draft) for id_, draft in zip(drafted, exchange.drafts, strict=True)
    ]
    assert len({summary.text for summary in shown}) > 3
    for text, summary in zip(texts, shown, strict=True):
        # The embedded base's own wording: what a rival left stands at the end of the user's turn.
        assert (
            text.split("rival")[1].removesuffix("<assistant>").split()
            == ("none" if summary.is_empty else summary.text).split()
        )


PROBLEM = Problem("1", "?", "1", "custom", "exact")
OUTCOMES = ["correct", "wrong", "truncated", "error"]


def attempt(outcome, form=1.0):
    completion = Completion((1,), (-1.0,), "", "stop", "A", 0)
    return Attempt("drafter", "A", Prompt((1,), ""), completion, Verdict(outcome, 0.0), form)


def weigh(earned, weights):
    return (
        weights.correctness * earned["correctness"]
        + weights.format * earned["form"]
        + weights.conversion * earned["conversion"]
    )


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("of_draft", OUTCOMES)
@pytest.mark.parametrize("of_challenge", OUTCOMES)
def test_rewards_are_those_of_the_method(example, of_challenge, of_draft, is_empty):
    weights = RewardWeights()
    draft, challenge = attempt(of_draft), attempt(of_challenge, form=0.0)
    summary = Summary("seen", is_empty=is_empty, has_leak=False, num_withheld=0)
    match = Match(PROBLEM, 0, (draft,), (summary,), challenge)
    method = method_named("agon")
    drafts, challenges = method.streams([[match]], StepView(0, 0, method.lineup(0), weights))
    earned = {
        "draft": (example.plain_terms(draft), drafts.groups[0], of_draft),
        "challenge": (
            example.challenge_terms(challenge, draft, summary),
            challenges.groups[0],
            of_challenge,
        ),
    }
    for terms, group, outcome in earned.values():
        if outcome == "error":
            assert set(terms.values()) == {None}
        else:
            assert weigh(terms, weights) == group.rewards[0]


@pytest.mark.parametrize(
    ("withholding", "shown"), [("mark", "Six sevens.\n\nThe answer is [withheld]."), ("drop", "Six sevens.")]
)
def test_an_answer_is_withheld_as_the_recipe_says(example, withholding, shown):
    settings = settings_of("quickstart-agon", [f"task.withholding={withholding}", "rollout.max_summary_tokens=500"])
    exchange = example.Exchange(load_base(settings.model), [PROBLEM], settings)
    said = "Six sevens.\n\nThe answer is <answer>42</answer>."
    draft = attempt("wrong")
    draft = replace(draft, completion=replace(draft.completion, text=said))
    assert exchange.summary(PROBLEM, draft).text == shown


def test_two_caps_are_refused(example):
    settings = settings_of("quickstart-agon", ["rollout.max_draft_tokens=30"])
    with pytest.raises(ConfigError, match=r"max_draft_tokens is 30 and max_challenge_tokens 44, but TRL has one cap"):
        example.make_config(settings, is_on_gpu=False)
