"""Where a selective cascade stops challenging, chosen on the development problems."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from agon.config import EvaluationSettings
from agon.evaluation.batches import play_all, require_problems
from agon.match.play import Sampling
from agon.match.session import Session
from agon.match.voting import confidence
from agon.records import Lineup, Problem


class Outcome(NamedTuple):
    """One match of the full cascade: how sure the draft was, and whether each of the two answers was right."""

    confidence: float
    is_draft_right: bool
    is_challenge_right: bool


class Threshold(NamedTuple):
    """What is below `value` is challenged. `accuracy` and `challenged_share` are those of the matches it was chosen on."""

    value: float
    accuracy: float
    challenged_share: float


def choose_threshold(
    session: Session,
    problems: Sequence[Problem],
    lineup: Lineup,
    *,
    task: str,
    settings: EvaluationSettings,
    sampling: Sampling,
) -> tuple[Threshold, str]:
    """Play the full cascade on the development problems and return the threshold that would have been best, and a note that says so.

    Raises:
        DataError: there are no development problems.
    """
    require_problems(problems, task=task, split="dev")
    doubt = lineup.doubt
    assert doubt is not None, "only a selective line-up has a threshold"
    everything = replace(lineup, threshold=math.inf)
    played = play_all(session, problems, everything, settings=settings, sampling=sampling)
    outcomes = [
        Outcome(
            confidence([draft.completion for draft in match.drafts], doubt, session.style),
            match.drafts[match.chosen].is_correct,
            match.final.is_correct,
        )
        for of_problem in played
        for match in of_problem
    ]
    best = best_threshold(outcomes)
    never, always = (sum(row[i] for row in outcomes) / len(outcomes) for i in (1, 2))
    note = (
        f"threshold {best.value:.4g} of {doubt} chosen on {len(problems)} development problems: accuracy {best.accuracy:.3f} there with "
        f"{best.challenged_share:.0%} challenged (never {never:.3f}, always {always:.3f})"
    )
    return best, note


def best_threshold(outcomes: Iterable[Outcome]) -> Threshold:
    """Return the threshold with the highest accuracy among those that part the outcomes; of equals the lowest, which costs the fewest tokens.

    Candidates are the confidences that occur (the lowest of them challenges nothing) and infinity (which challenges everything).

    Raises:
        ValueError: there are no outcomes.
    """
    ordered = sorted(outcomes)
    if not ordered:
        raise ValueError("a threshold cannot be chosen without outcomes")
    groups = [(value, list(group)) for value, group in groupby(ordered, key=lambda outcome: outcome.confidence)]
    right = sum(outcome.is_draft_right for outcome in ordered)
    challenged = 0
    candidates = [(groups[0][0], right, challenged)]
    above = [*(value for value, _ in groups[1:]), math.inf]
    for (_, group), value in zip(groups, above, strict=True):
        right += sum(outcome.is_challenge_right - outcome.is_draft_right for outcome in group)
        challenged += len(group)
        candidates.append((value, right, challenged))
    # max keeps the first of equals.
    value, right, challenged = max(candidates, key=lambda candidate: candidate[1])
    return Threshold(value, right / len(ordered), challenged / len(ordered))
