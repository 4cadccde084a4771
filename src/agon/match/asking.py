"""The requests of every stage: who is asked what, and from which random stream it draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agon.match.borders import Prompter
from agon.match.reading import Place
from agon.records import Lineup, Problem, Prompt, Request, Role, Summary
from agon.seeding import stream_seed


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are sampled, stage by stage. Units: tokens."""

    max_draft_tokens: int
    max_challenge_tokens: int
    max_summary_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0


class Asked(NamedTuple):
    """What one stage asks for: a request for each prompt, and the problem each is about."""

    role: Role
    problems: list[Problem]
    prompts: list[Prompt]
    requests: list[Request]


class Asker:
    """Asks for the stages of the matches of one call of `play`.

    The name of a random stream says what is drawn, and nothing of what is drawn beside it: a draft is the same whoever reads it, and
    a challenge, whatever it reads, draws the same numbers in every protocol. So protocols differ by what is read alone.
    """

    def __init__(
        self, prompts: Prompter, lineup: Lineup, sampling: Sampling, *, seed: int, stream: tuple[str | int, ...]
    ) -> None:
        self._prompts = prompts
        self._lineup = lineup
        self._sampling = sampling
        self._seed = seed
        self._stream = stream
        self._plain: dict[str, Prompt] = {}

    def drafts(self, places: Sequence[Place]) -> Asked:
        """Ask every drafter for a draft of every place."""
        prompts = [self._plain_prompt(problem) for problem, _ in places]
        return self._ask_drafters(places, prompts, "draft")

    def layer(self, number: int, places: Sequence[Place], shown: Sequence[tuple[Summary, ...]]) -> Asked:
        """Ask every drafter for a draft of every place that reads all drafts of the layer before. `number` counts from 1."""
        prompts = [
            self._prompts.challenge(problem, summaries) for (problem, _), summaries in zip(places, shown, strict=True)
        ]
        return self._ask_drafters(places, prompts, "layer", number)

    def challenge_prompt(self, problem: Problem, summaries: tuple[Summary, ...]) -> Prompt:
        """Return what the challenger reads. Who is shown nothing reads the plain prompt."""
        return self._prompts.challenge(problem, summaries) if summaries else self._plain_prompt(problem)

    def challenges(self, places: Sequence[Place], prompts: Sequence[Prompt]) -> Asked:
        """Ask the challenger about every place by its `challenge_prompt`."""
        cap = self._sampling.max_challenge_tokens
        requests = [
            self._request(prompt, self._lineup.challenger, cap, "challenge", problem.id, sample, 0)
            for (problem, sample), prompt in zip(places, prompts, strict=True)
        ]
        return Asked("challenger", [problem for problem, _ in places], list(prompts), requests)

    def _ask_drafters(self, places: Sequence[Place], prompts: Sequence[Prompt], *stage: str | int) -> Asked:
        drafters, cap = self._lineup.drafters, self._sampling.max_draft_tokens
        requests = [
            self._request(prompt, adapter, cap, *stage, problem.id, sample, number)
            for (problem, sample), prompt in zip(places, prompts, strict=True)
            for number, adapter in enumerate(drafters)
        ]
        problems = [problem for problem, _ in places for _ in drafters]
        return Asked("drafter", problems, [prompt for prompt in prompts for _ in drafters], requests)

    def _plain_prompt(self, problem: Problem) -> Prompt:
        if problem.id not in self._plain:
            self._plain[problem.id] = self._prompts.draft(problem)
        return self._plain[problem.id]

    def _request(self, prompt: Prompt, adapter: str | None, max_tokens: int, *names: str | int) -> Request:
        return Request(
            prompt_ids=prompt.token_ids,
            adapter=adapter,
            max_tokens=max_tokens,
            seed=stream_seed(self._seed, *self._stream, *names),
            temperature=self._sampling.temperature,
            top_p=self._sampling.top_p,
        )
