"""The searcher whose traces the embedded base is trained on: it guesses first moves, checks them, and gives up after a while.

It is mediocre on purpose. It prefers a first move that leads to the target only a little, sometimes goes back to a move it has
tried, sometimes overlooks the second move that would hit, and stops early. One thing it does well: it leaves alone the first
moves that a rival's list holds. Every choice is made from an explicit distribution, which goes into the training target
whole: the base learns the odds, not one draw of them, which takes far fewer traces.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from agon.countdown_text import (
    FIRST_MOVES,
    LARGEST_NUMBER,
    LARGEST_VALUE,
    NO_SUMMARY,
    OUT_OF_RANGE,
    RIVAL,
    SECOND_MOVES,
    SLOTS,
)
from agon.tasks.countdown import (
    Numbers,
    all_questions,
    countdown_splits,
    first_value,
    second_moves_after,
    second_value,
    solutions,
)

PAD, EOS, UNK, USER, ASSISTANT = "<pad>", "<eos>", "<unk>", "<user>", "<assistant>"
THINK, END_THINK, ANSWER, END_ANSWER = "<think>", "</think>", "<answer>", "</answer>"
SEPARATOR = ";"
OUT = f"={OUT_OF_RANGE}"
SPECIAL_TOKENS = (PAD, EOS, UNK, USER, ASSISTANT)
TAGS = (THINK, END_THINK, ANSWER, END_ANSWER)
WORDS = (SEPARATOR, RIVAL, NO_SUMMARY, *SLOTS)
NUMBERS = tuple(str(number) for number in range(1, LARGEST_NUMBER + 1))
VALUES = tuple(f"={value}" for value in range(LARGEST_VALUE + 1))
VOCABULARY = (*SPECIAL_TOKENS, *TAGS, *WORDS, *NUMBERS, *VALUES, OUT, *FIRST_MOVES, *SECOND_MOVES)
IDS = {token: index for index, token in enumerate(VOCABULARY)}

Odds = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Habits:
    """How the searcher searches. Weights are relative to 1 for an ordinary move within range."""

    sum_first: float = 2.0
    """Weight of a first move that adds, where others weigh 1: its favourite, right or not."""
    hit_first: float = 1.8
    """Weight of a first move that leads to the target."""
    out_first: float = 0.2
    """Weight of a first move that goes out of range."""
    own_repeat: float = 0.7
    """Factor for each time the searcher has already tried the first move itself."""
    listed: float = 0.02
    """Factor for a first move that a rival's list holds."""
    hit_second: float = 6.0
    """Weight of a second move that hits."""
    out_second: float = 0.2
    """Weight of a second move that goes out of range."""
    go_on: tuple[float, ...] = (0.95, 0.95, 0.25, 0.6, 0.6, 0.3, 0.0)
    """Chance of another try after the first, second, ... miss."""


@dataclass(frozen=True)
class Tried:
    """One try: a second move is missing when the first is out of range."""

    first: str
    second: str | None
    value: str

    @property
    def tokens(self) -> tuple[str, ...]:
        return (self.first, self.value) if self.second is None else (self.first, self.second, self.value)


@dataclass
class Trace:
    """Tokens with what each should have been predicted as, and how much that counts (0 for the prompt)."""

    tokens: list[str] = field(default_factory=list)
    odds: list[Odds] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, tokens: Sequence[str], weight: float) -> None:
        self.tokens += tokens
        self.odds += [((token, 1.0),) for token in tokens]
        self.weights += [weight] * len(tokens)

    def choose(self, rng: random.Random, weights: dict[str, float], weight: float) -> str:
        total = sum(weights.values())
        token = rng.choices(list(weights), list(weights.values()))[0]
        self.tokens.append(token)
        self.odds.append(tuple((name, share / total) for name, share in weights.items()))
        self.weights.append(weight)
        return token


@dataclass(frozen=True)
class LossWeights:
    """How much a token counts in the loss, by what it is."""

    first: float = 6.0
    second: float = 4.0
    value: float = 3.0
    other: float = 1.0


@cache
def outcomes(numbers: Numbers) -> dict[str, tuple[str, dict[str, str]]]:
    """What every first move comes to, and every second move after it, as value tokens."""
    table: dict[str, tuple[str, dict[str, str]]] = {}
    for first in FIRST_MOVES:
        value = first_value(first, numbers)
        if value is None:
            table[first] = (OUT, {})
            continue
        seconds = {second: second_value(value, second, numbers) for second in second_moves_after(first)}
        table[first] = (f"={value}", {second: OUT if end is None else f"={end}" for second, end in seconds.items()})
    return table


def prompt_tokens(numbers: Numbers, target: int, lists: Sequence[Sequence[Tried]]) -> list[str]:
    """The question and the rivals' lists, as the chat template lays them out."""
    question = [part for slot, number in zip(SLOTS, numbers, strict=True) for part in (slot, str(number))]
    rivals = [part for tries in lists for part in (RIVAL, *(listed_tokens(tries) or [NO_SUMMARY]))]
    return [USER, *question, f"={target}", *rivals, ASSISTANT]


def listed_tokens(tries: Sequence[Tried]) -> list[str]:
    """Tries as a summary: expressions and values, joined by the separator."""
    return [token for index, item in enumerate(tries) for token in ((SEPARATOR,) if index else ()) + item.tokens]


class Searcher:
    """Searches and writes down what it does, with the odds of every choice."""

    def __init__(self, rng: random.Random, habits: Habits, weights: LossWeights) -> None:
        self._rng = rng
        self._habits = habits
        self._weights = weights

    def search(self, numbers: Numbers, target: int, lists: Sequence[Sequence[Tried]] = ()) -> tuple[Trace, list[Tried]]:
        """Play one whole search: prompt, tries, summary, answer. The answer is the last try, whether it hits or not."""
        trace, goal, other = Trace(), f"={target}", self._weights.other
        trace.add(prompt_tokens(numbers, target, lists), 0.0)
        trace.add([THINK], other)
        listed = {item.first for tries in lists for item in tries}
        tried: list[Tried] = []
        while True:
            first_odds = self._first_odds(numbers, goal, listed=listed, own=[item.first for item in tried])
            tried.append(self._one_try(trace, numbers, goal, first_odds))
            if tried[-1].value == goal:
                trace.add([END_THINK], other)
                break
            go_on = self._habits.go_on[len(tried) - 1]
            if trace.choose(self._rng, {SEPARATOR: go_on, END_THINK: 1.0 - go_on}, other) == END_THINK:
                break
        trace.add(listed_tokens(tried), other)
        trace.add([ANSWER, *tried[-1].tokens[:-1], END_ANSWER, EOS], other)
        return trace, tried

    def _first_odds(self, numbers: Numbers, goal: str, *, listed: set[str], own: Sequence[str]) -> dict[str, float]:
        habits = self._habits
        return {
            first: (habits.out_first if value == OUT else habits.hit_first if goal in seconds.values() else 1.0)
            * (habits.sum_first if "+" in first else 1.0)
            * habits.own_repeat ** own.count(first)
            * (habits.listed if first in listed else 1.0)
            for first, (value, seconds) in outcomes(numbers).items()
        }

    def _second_odds(self, seconds: dict[str, str], goal: str) -> dict[str, float]:
        habits = self._habits
        return {
            second: habits.out_second if end == OUT else habits.hit_second if end == goal else 1.0
            for second, end in seconds.items()
        }

    def _one_try(self, trace: Trace, numbers: Numbers, goal: str, first_odds: dict[str, float]) -> Tried:
        weights = self._weights
        first = trace.choose(self._rng, first_odds, weights.first)
        value, seconds = outcomes(numbers)[first]
        trace.add([_number(numbers, first[1]), _number(numbers, first[3])], weights.other)
        trace.add([value], weights.value)
        if value == OUT:
            return Tried(first, None, OUT)
        second = trace.choose(self._rng, self._second_odds(seconds, goal), weights.second)
        trace.add([_number(numbers, second[1])], weights.other)
        trace.add([seconds[second]], weights.value)
        return Tried(first, second, seconds[second])


def _number(numbers: Numbers, slot: str) -> str:
    return str(numbers[SLOTS.index(slot)])


def random_list(rng: random.Random, numbers: Numbers, target: int) -> list[Tried]:
    """A list no searcher would write: any first moves, none hitting. It teaches that the list counts, not who wrote it."""
    goal, tries = f"={target}", []
    for first in rng.sample(FIRST_MOVES, rng.randint(0, 6)):
        value, seconds = outcomes(numbers)[first]
        misses = [second for second, end in seconds.items() if end != goal]
        if value == OUT:
            tries.append(Tried(first, None, OUT))
        elif misses:
            second = rng.choice(misses)
            tries.append(Tried(first, second, seconds[second]))
    return tries


@dataclass(frozen=True)
class Mixture:
    """What the base practises on, as shares."""

    hard: float = 0.5
    """Hard training problems; of the rest, half can be solved by three first moves or more and half cannot be solved."""
    num_lists: tuple[float, ...] = (0.42, 0.48, 0.05, 0.03, 0.02)
    """No rival's list (a draft), one, two, three, four."""
    random_lists: float = 0.3
    """Lists that are random, not a searcher's."""


@cache
def question_pools() -> tuple[list[tuple[Numbers, int]], list[tuple[Numbers, int]], list[tuple[Numbers, int]]]:
    """Hard training questions, easy ones, ones without a solution. Dev and test are in none of them."""
    splits = countdown_splits()
    keys = {name: {_key(problem.details) for problem in problems} for name, problems in splits.items()}
    rest = [question for question in all_questions() if not any(question in found for found in keys.values())]
    easy = [question for question in rest if solutions(*question)]
    solvable = set(easy)
    return sorted(keys["train"]), easy, [question for question in rest if question not in solvable]


def _key(details: object) -> tuple[Numbers, int]:
    assert isinstance(details, dict), "countdown problems carry a dict of details"
    return tuple(details["numbers"]), details["target"]


def practice(rng: random.Random, *, mixture: Mixture, habits: Habits, weights: LossWeights) -> Trace:
    """Draw one training trace: a question, rivals' lists for it, a search that has read them."""
    hard, easy, unsolvable = question_pools()
    pool = hard if rng.random() < mixture.hard else easy if rng.random() < 0.5 else unsolvable
    numbers, target = rng.choice(pool)
    num_lists = rng.choices(range(len(mixture.num_lists)), mixture.num_lists)[0]
    searcher = Searcher(rng, habits, weights)
    lists: list[list[Tried]] = []
    for _ in range(num_lists):
        if rng.random() < mixture.random_lists:
            lists.append(random_list(rng, numbers, target))
        else:
            _, tried = searcher.search(numbers, target)
            lists.append([item for item in tried if item.value != f"={target}"])
    trace, _ = searcher.search(numbers, target, lists)
    return trace
