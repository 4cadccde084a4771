"""Which draft stands when nobody challenges it, and how far the drafts bear it out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from agon.answers import extract_answer
from agon.numerals import read_number
from agon.records import AnswerStyle, Completion, Doubt, Lineup

Vote = str | Fraction


def chosen_draft(drafts: Sequence[Completion], lineup: Lineup, style: AnswerStyle) -> int:
    """Return the number of the draft that counts: the second of a blind pair, the likeliest, the majority's first, or the first."""
    match "majority" if lineup.doubt is not None else lineup.stands:
        case "first":
            return 0
        case "second":
            return 1
        case "majority":
            return majority(votes(drafts, style))
        case "likeliest":
            return likeliest(drafts, style)


def is_challenged(drafts: Sequence[Completion], lineup: Lineup, style: AnswerStyle) -> bool:
    """Tell whether a match with these drafts has a challenge: always or never, or where its drafts are doubtful."""
    if not lineup.has_challenge or lineup.doubt is None:
        return lineup.has_challenge
    return confidence(drafts, lineup.doubt, style) < lineup.threshold


def confidence(drafts: Sequence[Completion], doubt: Doubt, style: AnswerStyle) -> float:
    """Return how sure the drafts are of the answer that would stand, as something that can be known without the right answer.

    `likelihood`: the mean logprob a token, under the distribution it was sampled from, of the draft that would stand; minus infinity
    where that has no answer. `agreement`: the largest share of the drafts that give one answer.

    Units: nats for a likelihood, a share for an agreement.
    """
    cast = votes(drafts, style)
    chosen = majority(cast)
    if doubt == "agreement":
        return cast.count(cast[chosen]) / len(cast) if cast[chosen] is not None else 0.0
    return _likelihood(drafts[chosen], cast[chosen])


def likeliest(drafts: Sequence[Completion], style: AnswerStyle) -> int:
    """Return the number of the draft with the highest mean logprob a token, of those that have an answer; of equals the one given first.

    The likelihood is that of the distribution each draft was sampled from, so that drafts sampled alike can be compared.

    Paper: sample-and-rank, arXiv:2001.09977. Ours is a mean a token, which does not favour short drafts.
    """
    likelihoods = [_likelihood(*one) for one in zip(drafts, votes(drafts, style), strict=True)]
    return likelihoods.index(max(likelihoods))


def votes(drafts: Sequence[Completion], style: AnswerStyle) -> list[Vote | None]:
    """Return what each draft's answer is counted as; None for a truncated draft, or one without an answer."""
    return [None if draft.is_truncated else _vote(draft.text, style) for draft in drafts]


def majority(cast: Sequence[Vote | None]) -> int:
    """Return the number of the first draft with the most frequent answer; of equally frequent ones the one given first; 0 without any."""
    given = [vote for vote in cast if vote is not None]
    # max keeps the first of equals.
    return cast.index(max(dict.fromkeys(given), key=given.count)) if given else 0


def _likelihood(draft: Completion, vote: Vote | None) -> float:
    """Mean logprob a token, in nats; minus infinity for a draft that has no answer."""
    return math.fsum(draft.logprobs) / draft.num_tokens if vote is not None else -math.inf


def _vote(text: str, style: AnswerStyle) -> Vote | None:
    """Count a number by its value (18 and 18.0 are one answer), anything else as it is written."""
    answer = extract_answer(text, style)
    if answer is None:
        return None
    number = read_number(answer)
    return answer.strip() if number is None or number.is_percent else number.value
