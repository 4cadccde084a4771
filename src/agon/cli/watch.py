"""A match printed while it is played: what each stage writes, what crosses, the answer."""

from __future__ import annotations

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from agon.cli.common import printable
from agon.match.unchecked import NOT_CHECKED
from agon.records import Match, Summary
from agon.serve.records import Crossed, Event, MatchEnded, StageBegan, StageEnded, StageGrew

_TITLES = {"drafter": "draft", "challenger": "challenge"}


class MatchPrinter:
    """Prints the events of one match as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def take(self, event: Event) -> None:
        """Print what an event has to say."""
        match event:
            case StageBegan():
                self._title(f"{_TITLES[event.role]} by {event.adapter or 'base'}")
            case StageGrew():
                self._write(event.text)
            case StageEnded():
                ended = event.ended
                cut = ", cut off at its cap" if ended.completion.is_truncated else ""
                self._write(f"\n({ended.num_completion_tokens} tokens{cut}, {ended.seconds:.2g} s)\n")
            case Crossed():
                for summary in event.summaries:
                    self._title(f"summary as the challenger saw it ({_withheld(summary)})")
                    self._write(f"{summary.text}\n")
            case MatchEnded():
                self._write(f"{answer_line(event.match)}\n")

    def _title(self, title: str) -> None:
        self._console.print(Rule(Text(title), align="left", characters="-"))

    def _write(self, text: str) -> None:
        # As it is: a model's text is neither markup nor wrapped, and what has come is shown at once.
        self._console.file.write(printable(text))
        self._console.file.flush()


def answer_line(match: Match) -> str:
    """Return the answer of a match and, where there is one, the verdict on it."""
    verdict = match.final.verdict
    answer = verdict.answer if verdict.answer is not None else "(none)"
    if verdict.reason == NOT_CHECKED:
        return f"answer: {answer}"
    reason = f": {verdict.reason}" if verdict.reason else ""
    return f"answer: {answer}  ({verdict.outcome}{reason})"


def _withheld(summary: Summary) -> str:
    if summary.shows_answer:
        return "answer shown"
    leak = ", the withheld answer can still be read" if summary.has_leak else ""
    return f"{summary.num_withheld} withheld{leak}"
