"""What an exchange did to the answers, counted over the matches that were challenged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agon.records import Match


@dataclass(frozen=True, slots=True)
class ExchangeRates:
    """Shares over matches; None where there was nothing to take a share of.

    conversion: P(challenge right | every draft wrong). regression: P(challenge wrong | a draft right). copy: P(a draft's answer
    repeated | every draft wrong, one answered). leak: summaries in which the draft's answer can be read, although
    it was withheld (or because it was shown). empty: summaries replaced by the stand-in. withheld_mean: spans taken out of a summary.
    What was not challenged, in a selective cascade, counts in none; where drafts are hidden there are no summaries.
    """

    conversion: float | None
    regression: float | None
    copy: float | None
    leak: float | None
    empty: float | None
    withheld_mean: float | None


def exchange_rates(matches: Iterable[Match]) -> ExchangeRates:
    """Count conversions, regressions, copies and leaks. Matches whose checker failed in either stage are left out."""
    played = [match for match in matches if match.challenge is not None]
    judged = [match for match in played if not any(attempt.verdict.is_masked for attempt in match.attempts)]
    right = [match for match in judged if any(draft.is_correct for draft in match.drafts)]
    wrong = [match for match in judged if not any(draft.is_correct for draft in match.drafts)]
    answered = [match for match in wrong if any(draft.verdict.answer is not None for draft in match.drafts)]
    summaries = [summary for match in played for summary in match.summaries]
    return ExchangeRates(
        conversion=_share([match.final.is_correct for match in wrong]),
        regression=_share([not match.final.is_correct for match in right]),
        copy=_share([_is_copy(match) for match in answered]),
        leak=_share([summary.has_leak for summary in summaries]),
        empty=_share([summary.is_empty for summary in summaries]),
        withheld_mean=_share([summary.num_withheld for summary in summaries]),
    )


def _is_copy(match: Match) -> bool:
    return match.final.verdict.answer in {draft.verdict.answer for draft in match.drafts} - {None}


def _share(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
