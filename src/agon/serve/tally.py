"""What has come of a job so far, match by match, and how it is told to clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agon.records import Match, Summary, Verdict
from agon.serve.models import direction_of
from agon.serve.order import Order
from agon.serve.records import Crossed, Event, MatchEnded, StageEnded


@dataclass(slots=True)
class Choice:
    """A choice of the answer: one match of the job, as far as it has come."""

    ended: dict[int, StageEnded] = field(default_factory=dict[int, StageEnded])
    summaries: tuple[Summary, ...] = ()
    match: Match | None = None

    @property
    def stages(self) -> list[StageEnded]:
        """The stages that have ended, in their order in the match: drafts that are written side by side end in any."""
        return [self.ended[number] for number in sorted(self.ended)]

    @property
    def final_stage(self) -> int:
        """The number of the stage that answers the client, once the match is over."""
        assert self.match is not None, "the end of a match tells which stage answers"
        return self.match.chosen if self.match.challenge is None else len(self.match.drafts)

    @property
    def final(self) -> StageEnded:
        """The stage that answers the client, once the match is over."""
        return self.ended[self.final_stage]

    @property
    def summary(self) -> str | None:
        """What crossed from the drafts to the challenger; None if nothing did."""
        return "\n\n".join(summary.text for summary in self.summaries) if self.summaries else None

    @property
    def draft_text(self) -> str:
        """What the drafters wrote, but for a draft that is the answer."""
        return "\n\n".join(stage.ended.completion.text for stage in self.stages if stage is not self.final)


class Tally:
    """Adds up the events of a job."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.choices = [Choice() for _ in range(order.job.samples)]

    def take(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case StageEnded():
                self.choices[event.sample].ended[event.stage] = event
            case Crossed():
                self.choices[event.sample].summaries = event.summaries
            case MatchEnded():
                self.choices[event.sample].match = event.match
            case _:
                pass

    @property
    def num_tokens(self) -> tuple[int, int]:
        """Prompt tokens and sampled tokens of every stage that has ended."""
        ended = [stage.ended for choice in self.choices for stage in choice.stages]
        return sum(one.num_prompt_tokens for one in ended), sum(one.num_completion_tokens for one in ended)

    def usage(self) -> dict[str, Any]:
        """Return OpenAI's account of tokens, over every stage of every choice, and beside it ours, stage by stage."""
        num_prompt, num_completion = self.num_tokens
        hidden = sum(
            stage.ended.num_completion_tokens
            for choice in self.choices
            for stage in choice.stages
            if stage is not choice.final
        )
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_completion,
            "total_tokens": num_prompt + num_completion,
            "completion_tokens_details": {"reasoning_tokens": hidden},
            "stages": [
                {
                    "choice": number,
                    "role": stage.role,
                    "adapter": stage.ended.completion.adapter,
                    "prompt_tokens": stage.ended.num_prompt_tokens,
                    "completion_tokens": stage.ended.num_completion_tokens,
                    **({"is_estimated": True} if stage.ended.is_estimated else {}),
                }
                for number, choice in enumerate(self.choices)
                for stage in choice.stages
            ],
        }

    def details(self, number: int) -> dict[str, Any]:
        """Return what OpenAI's answer has no place for: who played, what crossed, what it was worth."""
        choice = self.choices[number]
        return {
            "choice": number,
            "direction": direction_of(self._order.job.lineup),
            "seed": self._order.job.seed,
            "summary": choice.summary,
            "summary_is_empty": _is_empty(choice.summaries),
            **self.outcome(number),
            "stages": [self._stage(stage) for stage in choice.stages],
        }

    def outcome(self, number: int) -> dict[str, Any]:
        """Return which stage answers, the answer, and the verdict on it; null where nobody knows the right one."""
        final_stage = self.choices[number].final_stage
        return {"final_stage": final_stage, **self._worth(self._match(number).final.verdict)}

    def finished(self, number: int) -> dict[str, Any]:
        """Return what a stream tells of a match that is over; with drafts shown, the answer and the verdict of every stage."""
        told = {"event": "finished", "seed": self._order.job.seed, **self.outcome(number)}
        if self._order.job.shows_drafts:
            told["stages"] = [
                {"role": attempt.role, "adapter": attempt.adapter, **self._worth(attempt.verdict)}
                for attempt in self._match(number).attempts
            ]
        return told

    def _match(self, number: int) -> Match:
        match = self.choices[number].match
        assert match is not None, "a match is told of when it is over"
        return match

    def _worth(self, verdict: Verdict) -> dict[str, Any]:
        return outcome_of(verdict, can_check=self._order.job.can_check)

    def _stage(self, stage: StageEnded) -> dict[str, Any]:
        text = {"text": stage.ended.completion.text} if self._order.job.shows_drafts else {}
        return {"role": stage.role, **text, **numbers_of(stage)}


def outcome_of(verdict: Verdict, *, can_check: bool) -> dict[str, Any]:
    """Return a verdict as clients are told of it."""
    return {
        "answer": verdict.answer,
        "verdict": verdict.outcome if can_check else None,
        "reason": verdict.reason or None,
    }


def numbers_of(stage: StageEnded) -> dict[str, Any]:
    """Return what a stage cost, and how it ended."""
    ended = stage.ended
    return {
        "adapter": ended.completion.adapter,
        "tokens": ended.num_completion_tokens,
        "prompt_tokens": ended.num_prompt_tokens,
        "seconds": round(ended.seconds, 4),
        "finish_reason": ended.completion.stop_reason,
        **({"is_estimated": True} if ended.is_estimated else {}),
    }


def crossed_of(summaries: tuple[Summary, ...]) -> dict[str, Any]:
    """Return what crossed, as a stream tells of it."""
    return {
        "summary": "\n\n".join(summary.text for summary in summaries),
        "is_empty": _is_empty(summaries),
        "num_withheld": sum(summary.num_withheld for summary in summaries),
        "has_leak": any(summary.has_leak for summary in summaries),
        "is_cut": any(summary.is_cut for summary in summaries),
    }


def _is_empty(summaries: tuple[Summary, ...]) -> bool | None:
    return all(summary.is_empty for summary in summaries) if summaries else None
