"""Measure a quickstart base with plain sampling: does it solve, stay in form, calculate, and read a rival's list.

    python scripts/measure_quickstart_base.py [FOLDER] [--samples 8] [--split dev]

Meant for choosing a recipe, so it looks at dev problems unless told otherwise.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from quickstart_searcher import IDS, VOCABULARY, outcomes
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from agon.answers import extract_answer, format_score, visible_text
from agon.countdown_text import FIRST_MOVES, challenge_question, parse_tries, withhold_hits
from agon.records import Problem
from agon.tasks.countdown import countdown_splits
from agon.verifiers.expression import check_expression

DEFAULT_BASE = Path(__file__).parents[1] / "src" / "agon" / "assets" / "quickstart-base"
DRAFT_CAP = 44
WORDS = {word: index for index, word in enumerate(VOCABULARY)}


class Played(NamedTuple):
    """One completion and what it came to."""

    problem: Problem
    text: str
    is_right: bool
    has_form: bool
    is_truncated: bool
    num_tokens: int

    @property
    def first_moves(self) -> list[str]:
        return [word for word in self.text.split("</think>")[0].split() if word in FIRST_MOVES]


@torch.no_grad()
def sample(
    model: PreTrainedModel, prompts: Sequence[str], *, cap: int, temperature: float, top_p: float, seed: int
) -> list[list[int]]:
    """Sample one completion a prompt, prompts of like length together."""
    generator = torch.Generator().manual_seed(seed)
    encoded = [[IDS[word] for word in f"<user> {prompt} <assistant>".split()] for prompt in prompts]
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for index, ids in enumerate(encoded):
        by_length[len(ids)].append(index)
    completions: list[list[int]] = [[] for _ in prompts]
    for rows in by_length.values():
        cache, tokens = DynamicCache(config=model.config), torch.tensor([encoded[row] for row in rows])
        is_open = [True] * len(rows)
        for _ in range(cap):
            logits = model(input_ids=tokens, past_key_values=cache, use_cache=True).logits[:, -1]
            tokens = torch.multinomial(nucleus(logits / temperature, top_p), 1, generator=generator)
            for place, token in enumerate(tokens[:, 0].tolist()):
                if is_open[place]:
                    completions[rows[place]].append(token)
                    is_open[place] = token != IDS["<eos>"]
            if not any(is_open):
                break
    return completions


def nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Probabilities with the tail beyond `top_p` cut off."""
    shares, order = torch.softmax(logits.double(), -1).sort(descending=True)
    shares[shares.cumsum(-1) - shares >= top_p] = 0.0
    return torch.zeros_like(shares).scatter(-1, order, shares)


def play(
    model: PreTrainedModel, problems: Sequence[Problem], prompts: Sequence[str], **sampling: float
) -> list[Played]:
    """Sample and check."""
    played: list[Played] = []
    for problem, ids in zip(problems, sample(model, prompts, **sampling), strict=True):
        is_truncated = ids[-1] != IDS["<eos>"]
        text = " ".join(VOCABULARY[token] for token in ids if token != IDS["<eos>"])
        answer = extract_answer(text, "tags")
        is_right = not is_truncated and answer is not None and check_expression(problem, answer).is_correct
        has_form = format_score(text, "tags", is_truncated=is_truncated) == 1.0
        played.append(Played(problem, text, is_right, has_form, is_truncated, len(ids)))
    return played


def summary_of(draft: Played) -> str:
    """What a challenger reads of a draft."""
    if draft.is_truncated:
        return ""
    return withhold_hits(visible_text(draft.text).partition("<answer>")[0], target=draft.problem.details["target"])[0]


def share(claims: Sequence[bool]) -> float:
    return round(sum(claims) / len(claims), 4) if claims else float("nan")


def values_right(played: Sequence[Played]) -> list[bool]:
    """For every value worked out in the reasoning, whether it is right."""
    claims: list[bool] = []
    for item in played:
        table, state = outcomes(tuple(item.problem.details["numbers"])), None
        for word in item.text.split("</think>")[0].split():
            if word in FIRST_MOVES:
                state = word
                expected = table[word][0]
            elif word.startswith("=") and state is not None:
                claims.append(word == expected)
            elif state is not None and word in table[state][1]:
                expected = table[state][1][word]
    return claims


def summaries_true(played: Sequence[Played]) -> list[bool]:
    """For every finished completion, whether its summary is the list of its tries."""
    claims: list[bool] = []
    for item in played:
        if item.is_truncated:
            continue
        words = item.text.split("</think>")[0].split()
        tries = [word for word in words if word in WORDS and not word[0].isdigit() and word not in ("<think>",)]
        told = visible_text(item.text).partition("<answer>")[0].split()
        claims.append(_without_inner_values(tries) == told)
    return claims


def _without_inner_values(words: Sequence[str]) -> list[str]:
    return [
        word
        for index, word in enumerate(words)
        if not (word.startswith("=") and words[index + 1 : index + 2] not in ([], [";"]))
    ]


def repeats(challenges: Sequence[Played], summaries: Sequence[str], *, first_only: bool) -> float:
    """Share of first moves that a non-empty list holds already."""
    claims: list[bool] = []
    for item, summary in zip(challenges, summaries, strict=True):
        listed = {tried.expression[:5] for tried in parse_tries(summary)}
        moves = item.first_moves[:1] if first_only else item.first_moves
        claims += [move in listed for move in moves if listed]
    return share(claims)


def measure(
    model: PreTrainedModel,
    split: str = "dev",
    *,
    samples: int = 8,
    cap: int = DRAFT_CAP,
    temperature: float = 0.6,
    top_p: float = 0.95,
    seed: int = 1,
) -> dict[str, float]:
    """Play single drafts, the untrained cascade and a blind second draft."""
    problems = [problem for problem in countdown_splits()[split] for _ in range(samples)]
    sampling = {"temperature": temperature, "top_p": top_p}
    questions = [problem.question for problem in problems]
    drafts = play(model, problems, questions, cap=cap, seed=seed, **sampling)
    summaries = [summary_of(draft) for draft in drafts]
    prompts = [challenge_question(question, [summary]) for question, summary in zip(questions, summaries, strict=True)]
    challenges = play(model, problems, prompts, cap=cap, seed=seed + 1, **sampling)
    blind = play(model, problems, questions, cap=cap, seed=seed + 2, **sampling)
    two = [challenge_question(q, [s, summary_of(b)]) for q, s, b in zip(questions, summaries, blind, strict=True)]
    readers_of_two = play(model, problems, two, cap=cap, seed=seed + 3, **sampling)
    doubled = play(model, problems, questions, cap=2 * cap, seed=seed + 4, **sampling)
    pairs = list(zip(drafts, challenges, blind, strict=True))
    own = [[move in item.first_moves[:place] for place, move in enumerate(item.first_moves)][1:] for item in drafts]
    return {
        "n": len(drafts),
        "single": share([item.is_right for item in drafts]),
        "cascade": share([item.is_right for item in challenges]),
        "two_drafts": share([item.is_right for item in readers_of_two]),
        "doubled_cap": share([item.is_right for item in doubled]),
        "conversion": share([c.is_right for d, c, _ in pairs if not d.is_right]),
        "blind_second": share([b.is_right for d, _, b in pairs if not d.is_right]),
        "regression": share([not c.is_right for d, c, _ in pairs if d.is_right]),
        "form": share([item.has_form for item in drafts + challenges]),
        "truncated": share([item.is_truncated for item in drafts]),
        "truncated_challenge": share([item.is_truncated for item in challenges]),
        "truncated_doubled": share([item.is_truncated for item in doubled]),
        "values_right": share(values_right(drafts + challenges)),
        "summary_true": share(summaries_true(drafts + challenges)),
        "tries": round(sum(len(item.first_moves) for item in drafts) / len(drafts), 3),
        "tokens": round(sum(item.num_tokens for item in drafts) / len(drafts), 2),
        "tokens_cascade": round(sum(d.num_tokens + c.num_tokens for d, c, _ in pairs) / len(pairs), 2),
        "own_repeats": share([claim for claims in own for claim in claims]),
        "repeats": repeats(challenges, summaries, first_only=False),
        "repeats_first": repeats(challenges, summaries, first_only=True),
        "repeats_blind": repeats(blind, summaries, first_only=False),
        "repeats_blind_first": repeats(blind, summaries, first_only=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, nargs="?", default=DEFAULT_BASE)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--temperature", type=float, default=0.6)
    parser.add_argument("--top-p", type=float, default=0.95)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(arguments.base, dtype=torch.float32)
    found = measure(
        model, arguments.split, samples=arguments.samples, temperature=arguments.temperature, top_p=arguments.top_p
    )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
