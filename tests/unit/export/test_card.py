from __future__ import annotations

import re

import pytest
import yaml

from agon.cli.main import build_parser
from agon.cli.serve_endpoints import open_endpoints
from agon.config import TaskSettings
from agon.export.base import NamedBase, open_base_folder
from agon.export.card import Card, card_text
from agon.export.prompts import prompts_of
from agon.export.trained import read_trained
from agon.serve.access import Access

GSM8K = {"name": "gsm8k", "path": "x.jsonl"}
KNOWN = NamedBase("owner/name", "v2", True)
LOCAL = NamedBase("base", None, False)


@pytest.fixture
def make_card(make_run, make_base):
    """The text of the card of a run's adapter."""

    def make(*, which="A", kind="adapter", base=KNOWN, name="A", licence=None, has_prompts=True, prepare=None, **run):
        path = make_run(make_base(), **run)
        if prepare is not None:
            prepare(path)
        trained = read_trained(path, which=which, step=None)
        opened = open_base_folder(trained.settings.model, local_only=True)
        prompts = prompts_of(trained.settings, opened.tokenizer, shows_answer=False) if has_prompts else None
        return card_text(Card(trained, base, kind, name, prompts, licence))

    return make


def head_of(text):
    return yaml.safe_load(text.split("---")[1])


def test_a_half_says_that_it_is_one_what_was_done_and_how_to_load_it(make_card):
    text = make_card()
    assert head_of(text) == {
        "base_model": "owner/name",
        "base_model_relation": "adapter",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["agon", "lora"],
    }
    for words in (
        "# name: adapter A",
        "it was trained to be deployed with B",
        "either may draft",
        "| method | `agon`: ",
        "| steps | 2, the whole run |",
        "| adapter A | 1 optimiser steps; roles played: drafter and challenger |",
        "| sampled | 128 completions |",
        "| seed | 5 |",
        'AutoModelForCausalLM.from_pretrained("owner/name", revision="v2")',
        'PeftModel.from_pretrained(base, "FOLDER")',
        "vllm serve owner/name --enable-lora --max-lora-rank 8 --lora-modules A=FOLDER",
        "This run was not evaluated.",
        "Unknown: none was stated for these weights.",
        "Nothing about it was found in the base's folder.",
    ):
        assert words in text


def test_a_base_that_others_do_not_know_is_not_named_to_them_as_if_they_did(make_card):
    text = make_card(base=LOCAL)
    assert "base_model" not in head_of(text)
    assert 'from_pretrained("BASE")' in text
    assert "`BASE` is the folder of the base" in text
    assert "| base | base (its name where it was trained); sha256 " in text


def test_a_pair_says_to_deploy_both(make_card):
    text = make_card(which="both", name=None)
    assert "# name: a pair of adapters" in text
    assert "Deploy both." in text
    assert "--lora-modules A=FOLDER/A B=FOLDER/B" in text
    assert "| adapter B | 1 optimiser steps" in text


def test_fixed_roles_and_a_run_that_had_not_ended_are_told(make_card):
    text = make_card(is_finished=False, train={"method": "fixed-roles", "steps": 9})
    assert "A was the drafter, B was the challenger" in text
    assert "| steps | 2, of 9: the run had not ended |" in text


def test_an_adapter_trained_alone_has_no_other_half(make_card):
    text = make_card(train={"method": "grpo"})
    assert "Trained alone, with the method `grpo`. It was trained so that the adapter answers in one pass." in text
    assert "deployed with" not in text
    assert "agon serve" not in text


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ({}, "--answer-style tags"),
        ({"answer_style": "boxed"}, "--answer-style boxed"),
        ({"wording": "plain-v2"}, "--answer-style tags --wording plain-v2"),
        ({"withholding": "drop"}, "--answer-style tags --withholding drop"),
        (
            {"answer_style": "boxed", "wording": "plain-v3", "withholding": "drop"},
            "--answer-style boxed --wording plain-v3 --withholding drop",
        ),
    ],
)
def test_a_pair_is_served_by_two_servers_in_the_words_it_was_trained_on(make_card, task, options):
    text = make_card(task={**GSM8K, **task})
    assert f"`agon serve --drafter URL --challenger URL {options}`" in text
    assert "enable_thinking" not in text
    (line,) = re.findall(r"`agon (serve --drafter [^`]*)`", text)
    words = line.replace("URL", "http://127.0.0.1:8001").split()
    with open_endpoints(build_parser().parse_args(words), Access()) as opened:
        asked, trained = opened.service.offer.task, TaskSettings(**GSM8K, **task)
    for name in ("answer_style", "wording", "withholding"):
        assert getattr(asked, name) == getattr(trained, name)


@pytest.mark.parametrize(
    ("model", "value"), [({"enable_thinking": False}, "false"), ({"enable_thinking": True}, "true")]
)
def test_a_switch_of_the_chat_template_is_named_that_the_servers_have_to_set(make_card, model, value):
    text = make_card(model=model, has_prompts=False, task=GSM8K)
    assert f"needs `enable_thinking = {value}`, as in training; agon does not send it." in text


SAID = "| summary | what a draft says after its reasoning"


@pytest.mark.parametrize(
    ("run", "row"),
    [
        ({"task": GSM8K}, f"{SAID}, `[withheld]` where it shows its answer |"),
        (
            {"task": {**GSM8K, "withholding": "drop"}},
            f"{SAID}, without the sentences that show its answer |",
        ),
        (
            {"task": {**GSM8K, "verifier": "absent_module:check"}},
            f"{SAID}, `[withheld]` where it shows its answer |",
        ),
        ({"task": GSM8K, "train": {"method": "answer-visible"}}, f"{SAID}, with its answer |"),
        (
            {"task": {"name": "countdown-lite", "withholding": "drop"}},
            "| summary | the tries that a draft names, without those that hit the target |",
        ),
    ],
)
def test_what_a_challenger_reads_of_a_draft_is_told(make_card, run, row):
    assert row in make_card(has_prompts=False, **run)


def test_where_nobody_reads_a_draft_no_summary_is_told(make_card):
    assert "| summary |" not in make_card(train={"method": "grpo"})


def test_a_pair_that_knows_no_words_is_not_sent_to_two_servers(make_card):
    text = make_card(task={"name": "countdown-lite", "wording": "symbols-v1"})
    assert "The pair plays by `agon serve RUN` alone" in text
    assert "--drafter" not in text


def test_a_pair_that_was_trained_on_tries_is_not_sent_to_two_servers(make_card):
    text = make_card(task={"name": "countdown-lite"})
    assert "The pair plays by `agon serve RUN` alone" in text
    assert "--drafter" not in text


def test_a_pair_that_was_trained_to_see_answers_is_not_sent_to_servers_that_withhold_them(make_card):
    assert "agon serve" not in make_card(train={"method": "answer-visible"})


def test_every_result_stands_with_its_n_and_interval(make_card, evaluate):
    def prepare(run):
        evaluate(run, "alone")
        players = {"drafters": ["A"], "challenger": "B"}
        evaluate(run, "pair", task="a|b", protocol="cascade", players=players, accuracy=0.25, samples=4)

    text = make_card(prepare=prepare)
    assert (
        "| countdown-lite | test | single | A | 0.500 | [0.211, 0.789] clopper-pearson by problem | 12 | 1 | alone |"
        in text
    )
    assert (
        "| a\\|b | test | cascade | A → B | 0.250 | [0.211, 0.789] clopper-pearson by problem | 12 | 4 | pair |" in text
    )


def test_prompts_are_shown_as_they_were_trained_on_and_left_out_where_nobody_knows_them(make_card):
    settings = {"task": {"name": "countdown-lite", "wording": "symbols-v1"}}
    text = make_card(**settings)
    # Without a chat template agon writes `{text}\n\nSolution:\n`; the tiny tokenizer knows none of the symbols: each is w0.
    assert "A draft is asked for with\n\n````\nw0 w0" in text
    assert "a challenge with\n\n````\nw0 w0" in text
    assert "Caps while training: 1024 tokens a draft, 1024 a challenge, 512 a summary." in text


def test_a_card_without_a_base_at_hand_shows_no_prompts(make_card):
    assert "## Prompts" not in make_card(has_prompts=False)


def test_folders_of_the_machine_are_not_told(make_card, tmp_path):
    data = tmp_path / "secret-project" / "mine.jsonl"
    data.parent.mkdir()
    data.write_text('{"question": "q", "answer": "1"}\n')
    text = make_card(task={"name": "custom", "path": str(data)}, base=LOCAL)
    assert "| task | custom (mine.jsonl), answers marked by `tags` |" in text
    assert "secret-project" not in text
    assert str(tmp_path) not in text


def test_a_licence_is_named_where_the_base_names_one(make_card):
    assert "Its folder names `apache-2.0`." in make_card(licence="apache-2.0")


@pytest.mark.parametrize(
    ("kind", "library", "words"),
    [
        ("merged", "transformers", 'AutoModelForCausalLM.from_pretrained("FOLDER")'),
        ("gguf", "gguf", "llama-server -m FILE.gguf"),
    ],
)
def test_merged_models_are_loaded_as_what_they_are(make_card, kind, library, words):
    text = make_card(kind=kind)
    assert head_of(text)["library_name"] == library
    assert words in text
    assert "PeftModel" not in text
