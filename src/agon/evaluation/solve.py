"""Let a trained pair solve one problem, with everything that passed between the two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agon.errors import ConfigError
from agon.evaluation.load import Opened, sampling_for
from agon.match.lineups import lineup_for, trained_protocol
from agon.match.play import play
from agon.match.unchecked import NOT_CHECKED, Unchecked
from agon.methods.registry import method_named
from agon.records import Direction, Match
from agon.tasks.typed import typed_problem


def solve(opened: Opened, text: str, *, gold: str | None, direction: Direction | None, seed: int) -> Match:
    """Play one match of the problem in `text` as the pair was trained to: a cascade (with the answer shown, if it was), or a self-cascade.

    Raises:
        ConfigError: a direction was asked of a run that trained one adapter.
        DataError: the text is no problem of the run's task.
    """
    method = method_named(opened.settings.train.method)
    if direction is not None and not method.has_pair:
        raise ConfigError(f"--direction {direction} was asked for, but this run trained one adapter: leave it out")
    problem, can_check = typed_problem(opened.settings.task, text, gold)
    session = opened.session if can_check else replace(opened.session, verifiers=Unchecked())
    # A method that trains drafts alone is shown as the others are, with a second pass.
    trained = trained_protocol(method)
    protocol = "self-cascade" if trained == "single" else trained
    lineup = lineup_for(protocol, direction=(direction or "a-b") if method.has_pair else None)
    sampling = sampling_for(opened.settings)
    (matches,) = play(session, [problem], lineup, samples=1, sampling=sampling, seed=seed, stream=("solve",))
    return matches[0]


def solved_json(match: Match) -> dict[str, Any]:
    """Return what `agon solve --json` prints."""
    stages = {attempt.role: attempt for attempt in match.attempts}
    return {
        "problem": match.problem.question,
        "answer": match.final.verdict.answer,
        "verdict": None if match.final.verdict.reason == NOT_CHECKED else match.final.verdict.outcome,
        "summary": match.summaries[0].text if match.summaries else None,
        **{
            role: {
                "adapter": attempt.adapter,
                "text": attempt.completion.text,
                "tokens": attempt.completion.num_tokens,
                "truncated": attempt.completion.is_truncated,
            }
            for role, attempt in stages.items()
        },
    }
