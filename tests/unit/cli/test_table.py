from __future__ import annotations

from agon.cli.table import print_evaluation, print_table


def _row(**changes):
    row = {
        "title": "Agon",
        "label": "agon",
        "task": "countdown-lite",
        "split": "test",
        "direction": "a-b",
        "accuracy": 0.859,
        "n": 290,
        "interval": {"low": 0.813, "high": 0.897, "level": 0.95, "kind": "clopper-pearson", "unit": "problem"},
        "intervals": {"conversion": {"n": 86}, "regression": {"n": 204}},
        "tokens": {"draft": 27.6, "summary_prefill": 4.2, "challenge": 23.8, "total": 51.4, "prefill_total": 23.6},
        "conversion": 0.593,
        "blind_second": 0.291,
        "regression": 0.029,
        "copy_rate": None,
        "seed": 1234,
        "temperature": 0.6,
        "top_p": 0.95,
        "notes": ["direction a-b chosen on 200 development problems"],
    }
    return row | changes


def test_a_row_shows_n_interval_every_stages_tokens_and_how_many_a_rate_is_of(capsys):
    print_table([_row()], seed=3)
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if "Agon (a-b)" in line)
    words = row.split()
    for word in (
        "0.859",
        "290",
        "[0.813,",
        "0.897]",
        "27.6",
        "4.2",
        "23.8",
        "51.4",
        "23.6",
        "0.593",
        "(86)",
        "0.029",
        "(204)",
        "-",
    ):
        assert word in words
    assert "training seed 3" in printed
    assert "Agon: direction a-b chosen on 200 development problems" in printed


def test_a_row_without_an_exchange_shows_no_rates(capsys):
    print_table(
        [_row(title="GRPO", direction=None, conversion=None, blind_second=None, regression=None, intervals={})], seed=0
    )
    row = next(line for line in capsys.readouterr().out.splitlines() if "GRPO" in line)
    assert row.split()[-4:] == ["-", "-", "-", "-"]


def _evaluation(**changes):
    row = _row(
        protocol="selective",
        samples=1,
        pass_at_k={"1": 0.859},
        players={"drafters": ["A"], "challenger": "B"},
        lineup={"doubt": "likelihood", "threshold": -0.25},
        challenged_share=0.4,
        leak_rate=0.0,
        outcomes={"correct": 249, "wrong": 41},
        truncated_share=0.0,
        latency_s=0.0125,
    )
    return row | changes


def test_a_selective_cascade_says_what_it_challenged_and_what_that_took(capsys):
    print_evaluation(_evaluation())
    printed = capsys.readouterr().out
    assert "challenged 0.400: where the likelihood of the draft is below -0.25" in printed
    assert "0.0125 s of sampling a match" in printed
    print_evaluation(_evaluation(lineup={"doubt": "agreement", "threshold": "inf"}))
    assert "the agreement of the draft is below inf" in capsys.readouterr().out


def test_other_protocols_do_not_speak_of_doubt(capsys):
    print_evaluation(_evaluation(protocol="cascade", lineup={"doubt": None, "threshold": None}))
    assert "challenged" not in capsys.readouterr().out


def test_notes_that_quote_data_give_the_terminal_no_orders(capsys):
    print_evaluation(_evaluation(notes=["row 3: \x1b[2J", "[bold]"]))
    printed = capsys.readouterr().out
    assert "row 3: \\x1b[2J" in printed
    assert "  [bold]\n" in printed


def test_a_doubled_cap_stands_beside_the_protocol(capsys):
    print_evaluation(_evaluation(protocol="single", doubled_cap=True, lineup={"doubt": None, "threshold": None}))
    assert "countdown-lite test, single, doubled cap (agon): pass@1" in capsys.readouterr().out
