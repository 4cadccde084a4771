"""The table [alarms] of a recipe: what is said of a run whose numbers go bad, and what stops it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agon.config.tables import Count, Positive, Share, Table

AlarmMode = Literal["off", "warn", "stop"]
Limit = Annotated[float, Field(gt=0.0)]


class AlarmSettings(Table):
    """When an alarm sounds, and whether it warns or stops the run (docs/alarms.md)."""

    steps: Positive = 5
    """Steps in a row, of one adapter in one role, in which a number must be bad for its alarm to sound, and good for it to end."""
    all_truncated: AlarmMode = "stop"
    """Every completion reached its cap, so that none can be right."""
    truncated: AlarmMode = "warn"
    """Many completions reached their cap."""
    truncated_share: Share = 0.5
    """Share of completions at their cap that are many."""
    all_empty: AlarmMode = "stop"
    """Completions end as soon as they begin."""
    empty_tokens: Limit = 2.0
    """Mean tokens of a completion, the stop token included, up to which completions are empty."""
    empty_summaries: AlarmMode = "warn"
    """Hardly any draft leaves the challenger anything to read, though most are wrong."""
    empty_summary_share: Share = 0.95
    """Share of drafts without a summary from which the exchange carries nothing."""
    format_lost: AlarmMode = "stop"
    """Answers could be read, and no longer can."""
    format_lost_share: Share = 0.1
    """Share of readable completions, over that of the best step before, up to which the format is lost."""
    entropy_collapse: AlarmMode = "warn"
    """The policy has become all but deterministic: both limits below are undercut."""
    entropy_nats: Limit = 0.03
    """Entropy up to which a policy may have collapsed, nats a token."""
    entropy_share: Share = 0.2
    """Share of its entropy in the first steps up to which a policy may have collapsed."""
    length_explosion: AlarmMode = "warn"
    """Completions have grown by `length_factor`, and are no more often right than at the start."""
    length_factor: Annotated[float, Field(gt=1.0)] = 3.0
    """Mean tokens of a completion over those of the first steps."""
    engine_gap: AlarmMode = "warn"
    """Engine and learner drift apart; beyond `train.max_logprob_gap` the run stops whatever is set here."""
    engine_gap_nats: Limit = 0.05
    """Mean |learner - engine| logprob from which they do, nats a token."""
    kl_explosion: AlarmMode = "warn"
    """An adapter has moved far from the base."""
    kl_nats: Limit = 1.0
    """KL of an adapter to the base on its own completions, nats a token."""
    kl_every: Count = 20
    """Steps between measurements of that KL, on a few of the step's own completions; 0 measures none."""
    dead_groups: AlarmMode = "warn"
    """Hardly any group has a learning signal."""
    dead_group_share: Share = 0.9
    """Share of groups without a signal from which that is so."""
    dead_group_steps: Positive = 10
    """Steps in a row, of one adapter in one role, for that alarm."""
    nothing_learned: AlarmMode = "stop"
    """No completion of any adapter entered a loss, and fewer than half of the drafts are right."""
    nothing_learned_steps: Positive = 20
    """Steps in a row for that alarm."""
    low_memory: AlarmMode = "warn"
    """Main memory, or that of the GPU at the peak of a step, is nearly used up."""
    low_memory_share: Share = 0.05
    """Share of it that is free up to which that is so."""
    pair_alike: AlarmMode = "warn"
    """The two adapters have become one."""
    pair_distance: Limit = 0.2
    """Distance of the two updates, over the mean of their norms, up to which that is so (1.41 is unrelated)."""
    copying: AlarmMode = "warn"
    """A challenger repeats the wrong answers that it reads about, as the microscope defines it, in 10 steps of its drafter and it."""
    always_disagreeing: AlarmMode = "warn"
    """A challenger is wrong after right drafts, as the microscope defines it, in 10 steps of its drafter and it."""
