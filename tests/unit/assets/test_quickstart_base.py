"""The shipped base is an ordinary model folder, stays in form, calculates, and reads a rival's list. Dev problems only."""

from importlib import resources
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agon.answers import extract_answer, format_score, visible_text
from agon.countdown_text import FIRST_MOVES, SECOND_MOVES, challenge_question, draft_question, parse_tries
from agon.export.base import licence_of
from agon.tasks.countdown import countdown_splits, solutions
from agon.verifiers.expression import check_expression

FOLDER = Path(str(resources.files("agon"))) / "assets" / "quickstart-base"
DEV = countdown_splits()["dev"][:100]
THREE_TRIES = 44


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


def prompt_ids(tokenizer, question):
    turn = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)


@pytest.fixture(scope="module")
def drafts(model, tokenizer):
    """One draft of each dev problem, plain prompts all of one length."""
    prompts = torch.tensor([prompt_ids(tokenizer, problem.question) for problem in DEV])
    torch.manual_seed(0)
    out = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=THREE_TRIES,
        do_sample=True,
        temperature=0.6,
        top_p=0.95,
        top_k=0,
    )
    completions = [ids[: ids.index(1) + 1] if 1 in ids else ids for ids in out[:, prompts.shape[1] :].tolist()]
    return [(tokenizer.decode(ids, skip_special_tokens=True), ids[-1] != tokenizer.eos_token_id) for ids in completions]


def listed_misses(problem):
    """Three first moves that cannot lead to the target, as a rival would list them."""
    hits = {solution[:5] for solution in solutions(problem.details["numbers"], problem.details["target"])}
    misses = [first for first in FIRST_MOVES if first not in hits]
    return misses[len(problem.id) % 3 :][:3]


def mass_on(model, tokenizer, question, moves):
    """Probability that the first try starts with one of the moves."""
    ids = torch.tensor([[*prompt_ids(tokenizer, question), tokenizer.convert_tokens_to_ids("<think>")]])
    with torch.no_grad():
        shares = model(input_ids=ids).logits[0, -1].softmax(-1)
    return shares[tokenizer.convert_tokens_to_ids(list(moves))].sum().item()


def test_folder_is_small_and_holds_no_pickle():
    files = [path for path in FOLDER.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert {path.suffix for path in files} <= {".json", ".jinja", ".safetensors", ".md"}


def test_prompt_text_comes_back_from_its_ids(tokenizer):
    question = challenge_question(draft_question((12, 7, 5), 24), ["(a-b) *c =25 ; (a*b) =out", ""])
    ids = tokenizer(question, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == question
    assert tokenizer.unk_token_id not in ids


def test_moves_and_tags_are_single_tokens_and_spaces_do_not_matter(tokenizer):
    for word in (*FIRST_MOVES, *SECOND_MOVES, "<think>", "</think>", "<answer>", "</answer>"):
        assert len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1
    spaced = tokenizer("(a-b) *c =25", add_special_tokens=False)["input_ids"]
    assert tokenizer("(a-b)*c = 25", add_special_tokens=False)["input_ids"] == spaced


def test_tags_outlive_decoding_without_special_tokens(tokenizer):
    ids = tokenizer("<think> (a-b) 12 7 =5 </think> <answer> (a-b) *c </answer> <eos>", add_special_tokens=False)[
        "input_ids"
    ]
    assert (
        tokenizer.decode(ids, skip_special_tokens=True) == "<think> (a-b) 12 7 =5 </think> <answer> (a-b) *c </answer>"
    )


def test_chat_template_lays_out_turns(tokenizer):
    turns = [
        {"role": "user", "content": "a 3 b 2 c 1 =6"},
        {"role": "assistant", "content": "<answer> (a+b) +c </answer>"},
    ]
    assert tokenizer.apply_chat_template(turns, tokenize=False) == (
        "<user> a 3 b 2 c 1 =6 <assistant> <answer> (a+b) +c </answer> <eos> "
    )
    with pytest.raises(Exception, match="knows the roles user and assistant only"):
        tokenizer.apply_chat_template([{"role": "system", "content": "x"}], tokenize=False)


def test_generation_settings_end_at_the_stop_token(model, tokenizer):
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == model.config.eos_token_id
    assert model.config.vocab_size == len(tokenizer)


def test_most_drafts_are_in_form_and_end_within_three_tries(drafts):
    in_form = [format_score(text, "tags", is_truncated=is_truncated) for text, is_truncated in drafts]
    assert sum(in_form) >= 75


def test_summary_lists_the_last_try_with_its_value(drafts):
    finished = [text for text, is_truncated in drafts if not is_truncated]
    tried = [parse_tries(visible_text(text)) for text in finished]
    answers = [extract_answer(text, "tags") for text in finished]
    agree = [
        bool(t) and a is not None and "".join(a.split()) == t[-1].expression
        for t, a in zip(tried, answers, strict=True)
    ]
    assert sum(agree) >= 0.95 * len(finished)


def test_it_calculates(drafts):
    claims = []
    for problem, (text, _) in zip(DEV, drafts, strict=True):
        for tried in parse_tries(visible_text(text)):
            if tried.value is not None:
                verdict = check_expression(problem, tried.expression)
                claims.append(
                    verdict.is_correct
                    if tried.value == problem.details["target"]
                    else f"comes to {tried.value}," in verdict.reason
                )
    assert len(claims) > 50
    assert sum(claims) >= 0.97 * len(claims)


def test_it_is_neither_hopeless_nor_perfect(drafts):
    right = [
        not is_truncated and check_expression(problem, extract_answer(text, "tags") or "").is_correct
        for problem, (text, is_truncated) in zip(DEV, drafts, strict=True)
    ]
    assert 20 <= sum(right) <= 65


def test_it_reads_the_rivals_list(model, tokenizer):
    blind, reading = [], []
    for problem in DEV:
        moves = listed_misses(problem)
        summary = " ; ".join(f"{move} =out" for move in moves)
        blind.append(mass_on(model, tokenizer, problem.question, moves))
        reading.append(mass_on(model, tokenizer, challenge_question(problem.question, [summary]), moves))
    assert sum(blind) / len(blind) > 0.25
    assert sum(reading) / len(reading) < 0.1


def test_its_card_names_the_licence_that_an_export_repeats():
    assert licence_of(FOLDER) == "apache-2.0"
