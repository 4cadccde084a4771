"""What a protocol costs: tokens of every stage."""

from __future__ import annotations

from collections.abc import Sequence

from agon.records import Match


def token_ledger(matches: Sequence[Match]) -> dict[str, float]:
    """Return mean tokens of each stage a match, over every layer: generated, and read as prompts (prefilled).

    `draft` and `challenge` are generated, `total` is their sum. `summary_prefill` are the summaries, counted for each that read them;
    `prompt_prefill` all other prompt tokens of all stages, and `prefill_total` both. A placebo's partner is not counted: it stands for
    the match's own draft, which is.
    """
    count = len(matches)
    drafts = sum(draft.completion.num_tokens for match in matches for draft in (*match.earlier, *match.drafts)) / count
    challenge = sum(match.challenge.completion.num_tokens for match in matches if match.challenge is not None) / count
    summaries = sum(_summary_tokens(match) for match in matches) / count
    prompts = sum(len(attempt.prompt.token_ids) for match in matches for attempt in match.attempts) / count
    return {
        "draft": drafts,
        "summary_prefill": summaries,
        "prompt_prefill": prompts - summaries,
        "challenge": challenge,
        "total": drafts + challenge,
        "prefill_total": prompts,
    }


def _summary_tokens(match: Match) -> int:
    """Every drafter of the next layer reads all summaries of an earlier one; the challenger alone reads the last."""
    between = sum(summary.num_tokens for summary in match.earlier_summaries) * len(match.drafts)
    return between + sum(summary.num_tokens for summary in match.summaries)
