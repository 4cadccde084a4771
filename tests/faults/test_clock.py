"""A clock that leaps forwards and backwards by up to a day changes nothing but what is written as a date."""

from __future__ import annotations

import json
import shutil

from harness.folders import require_same

JUMPING = {"do": "clock", "seed": 11}


def test_a_training_gives_the_same_bytes_and_no_negative_time(starter, train, whole, place):
    out = place / "run"
    ended = train(out, faults=[JUMPING])
    assert ended.code == 0, ended.told
    require_same(out, whole)
    for line in (out / "timings.jsonl").read_text().splitlines():
        seconds = [value for name, value in json.loads(line).items() if name.endswith("_s")]
        assert min(seconds) >= -0.001, line
        assert max(seconds) < 3600, line


def test_a_killed_training_is_continued_to_the_same_bytes(starter, train, whole, place):
    out = place / "run"
    kill = {"at": {"event": "open", "path": "optimizer-B", "number": 2}, "do": "kill"}
    assert train(out, faults=[JUMPING, kill]).code == -9
    assert starter.run("train", "--resume", "--out", out, cwd=place, faults=[JUMPING | {"seed": 12}]).code == 0
    require_same(out, whole)


def test_what_measures_and_reports_says_the_same(starter, measured, place):
    run = place / "run"
    shutil.copytree(measured, run)
    for words in (["eval", run, "--json"], ["compare", run, "--json"], ["solve", run, "12 7 5 = 24", "--json"]):
        told = [starter.run(*words, cwd=place, faults=faults).stdout for faults in ([], [JUMPING])]
        assert json.loads(told[0])
        assert told[0] == told[1]
    pages = []
    for faults in ([], [JUMPING]):
        assert starter.run("report", run, cwd=place, faults=faults).code == 0
        pages.append((run / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_the_checkers_still_keep_their_limits(starter, place):
    rows = [{"gold": "12", "pred": "12", "equal": True}, {"gold": "12", "pred": "13", "equal": False}] * 4
    rows.insert(3, {"gold": "12", "pred": "9^{9^{9^9}} + 1", "equal": False})
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = starter.run("verify", "math", "--pairs", "pairs.jsonl", "--json", cwd=place, faults=[JUMPING])
    assert ended.code == 0, ended.told
    assert json.loads(ended.stdout)["agree"] == len(rows)


def test_it_serves_and_ends(serving, measured):
    with serving(measured, faults=[JUMPING]) as server:
        assert server.ask("12 7 5 = 24").status_code == 200
        server.command.send(15)
        assert server.command.wait().code == 0
