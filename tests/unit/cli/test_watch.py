from __future__ import annotations

import io

from rich.console import Console

from agon.cli.watch import MatchPrinter, answer_line
from agon.match.unchecked import NOT_CHECKED
from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.serve.records import Crossed, EndedStage, MatchEnded, StageBegan, StageEnded, StageGrew


def _match(verdict):
    completion = Completion((1,), (-0.5,), "x", "stop", "A", 0)
    draft = Attempt("drafter", "A", Prompt((), ""), completion, verdict, 1.0)
    return Match(Problem(id="p", question="q", gold="", task="t", verifier="exact"), 0, (draft,))


def _printed(*events):
    out = io.StringIO()
    printer = MatchPrinter(Console(file=out, width=60))
    for event in events:
        printer.take(event)
    return out.getvalue()


def test_text_is_printed_as_it_comes_and_never_read_as_markup():
    assert _printed(
        StageGrew(0, "drafter", "[bold]1[/bold] ", (), (), False), StageGrew(0, "drafter", "[2]", (), (), False)
    ) == ("[bold]1[/bold] [2]")


def test_stages_are_named_with_their_tokens_and_a_cut_is_said():
    cut = Completion((1, 2), (-0.5, -0.5), "x", "length", None, 0)
    printed = _printed(StageBegan(0, "drafter", None), StageEnded(0, "drafter", EndedStage(cut, 3, 2, 0.25), False))
    assert "draft by base ---" in printed
    assert "(2 tokens, cut off at its cap, 0.25 s)" in printed


def test_what_crossed_says_how_much_was_withheld():
    summary = Summary("so [withheld]", is_empty=False, has_leak=True, num_withheld=1)
    printed = _printed(Crossed(0, (summary,)))
    assert "summary as the challenger saw it (1 withheld, the" in printed
    assert "so [withheld]\n" in printed


def test_half_a_character_does_not_end_the_program():
    assert _printed(StageGrew(0, "drafter", "a\ud83d", (), (), False)) == "a\\ud83d"


def test_a_models_text_gives_the_terminal_no_orders():
    shown = _printed(StageGrew(0, "drafter", "\x1b]52;c;aGk=\x07\tx\r\n", (), (), False))
    assert shown == "\\x1b]52;c;aGk=\\x07\tx\\r\n"


def test_the_answer_comes_with_its_verdict_where_there_is_one():
    assert answer_line(_match(Verdict("wrong", 0.0, "comes to 3", answer="1+2"))) == "answer: 1+2  (wrong: comes to 3)"
    assert answer_line(_match(Verdict("unparsed", 0.0, NOT_CHECKED, answer=None))) == "answer: (none)"
    match = _match(Verdict("correct", 1.0, answer="7"))
    assert _printed(MatchEnded(0, match)) == "answer: 7  (correct)\n"
