"""From what was sampled and decided to matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agon.answers import format_score
from agon.match.asking import Asked
from agon.match.reading import Place
from agon.match.voting import chosen_draft
from agon.records import AnswerStyle, Attempt, Completion, Lineup, Match, Summary, Verdict


class Stage(NamedTuple):
    """What one stage asked for, got, and was judged to be."""

    asked: Asked
    completions: Sequence[Completion]
    verdicts: Sequence[Verdict]


class Played(NamedTuple):
    """Drafts layer by layer; what each place read of every layer but the last; what each challenger read, by match; the challenges."""

    layers: Sequence[Stage]
    between: Sequence[Sequence[tuple[Summary, ...]]]
    shown: Mapping[int, tuple[Summary, ...]]
    challenges: Stage


def matches_of(played: Played, places: Sequence[Place], *, lineup: Lineup, style: AnswerStyle) -> list[Match]:
    """Put the matches of these places together, in their order. What others drafted only to be read is left out."""
    layers = [_attempts(layer, style) for layer in played.layers]
    challenges = dict(zip(played.shown, _attempts(played.challenges, style), strict=True))
    count = len(lineup.drafters)
    matches: list[Match] = []
    for number, (problem, sample) in enumerate(places):
        own = slice(number * count, (number + 1) * count)
        drafts = tuple(layers[-1][own])
        matches.append(
            Match(
                problem=problem,
                sample=sample,
                drafts=drafts,
                summaries=played.shown.get(number, ()),
                challenge=challenges.get(number),
                chosen=chosen_draft([draft.completion for draft in drafts], lineup, style),
                earlier=tuple(attempt for layer in layers[:-1] for attempt in layer[own]),
                earlier_summaries=tuple(summary for shown in played.between for summary in shown[number]),
            )
        )
    return matches


def _attempts(stage: Stage, style: AnswerStyle) -> list[Attempt]:
    return [
        Attempt(
            role=stage.asked.role,
            adapter=completion.adapter,
            prompt=prompt,
            completion=completion,
            verdict=verdict,
            format_score=format_score(completion.text, style, is_truncated=completion.is_truncated),
        )
        for prompt, completion, verdict in zip(stage.asked.prompts, stage.completions, stage.verdicts, strict=True)
    ]
