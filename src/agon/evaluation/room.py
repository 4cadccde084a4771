"""Room in the context for what a protocol reads and writes beyond the one summary and the caps that the problems were chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agon.config import RolloutSettings
from agon.errors import ConfigError
from agon.evaluation.load import Opened
from agon.match.session import fit_problems
from agon.records import Lineup, Problem


def require_room(opened: Opened, lineup: Lineup, problems: Sequence[Problem]) -> None:
    """Check that a prompt which shows every draft's summary fits; for one summary and a challenge the problems were chosen so.

    Raises:
        ConfigError: it does not fit for some problems.
    """
    num_drafts = len(lineup.drafters)
    if not lineup.has_challenge or (num_drafts == 1 and lineup.layers == 1):
        return
    rollout = opened.settings.rollout
    if lineup.layers > 1:
        # Drafts of later layers read summaries, too.
        longest = max(rollout.max_draft_tokens, rollout.max_challenge_tokens)
        rollout = rollout.model_copy(update={"max_challenge_tokens": longest})
    asked = f"reading {num_drafts} drafts" + (f" in {lineup.layers} layers" if lineup.layers > 1 else "")
    remedy = "take fewer, or lower rollout.max_summary_tokens"
    _require_fit(opened, problems, rollout, num_summaries=num_drafts, asked=asked, remedy=remedy)


def with_doubled_caps(opened: Opened, problems: Sequence[Problem]) -> Opened:
    """Return the same with twice the caps: an honest rival of a cascade has as many tokens in one pass.

    Raises:
        ConfigError: so much does not fit for some of `problems`, which are those to be played.
    """
    caps = opened.settings.rollout
    rollout = caps.model_copy(
        update={
            "max_draft_tokens": 2 * caps.max_draft_tokens,
            "max_challenge_tokens": 2 * caps.max_challenge_tokens,
        }
    )
    _require_fit(opened, problems, rollout, asked="a doubled cap", remedy="leave it out, or lower the caps")
    return replace(opened, settings=opened.settings.model_copy(update={"rollout": rollout}))


def _require_fit(
    opened: Opened,
    problems: Sequence[Problem],
    rollout: RolloutSettings,
    *,
    num_summaries: int = 1,
    asked: str,
    remedy: str,
) -> None:
    limit = opened.settings.task.max_prompt_tokens
    kept, _ = fit_problems(opened.session, problems, rollout, max_prompt_tokens=limit, num_summaries=num_summaries)
    if len(kept) < len(problems):
        raise ConfigError(
            f"{asked} leaves no room in the context of {opened.session.engine.context_length} tokens for "
            f"{len(problems) - len(kept)} of {len(problems)} problems: {remedy}"
        )
