import json
import re

from agon.report import write_report
from agon.report.alarms import alarm_rows
from agon.report.collect import collect

WARNED = {
    "step": 4,
    "since": 0,
    "name": "truncated",
    "about": "A as drafter",
    "mode": "warn",
    "message": "many are cut",
}
STOPPED = {
    "step": 9,
    "since": 5,
    "name": "format-lost",
    "about": "B as drafter",
    "mode": "stop",
    "message": "none is read",
}


def _ring(run, *alarms):
    (run / "alarms.jsonl").write_text("".join(json.dumps(alarm) + "\n" for alarm in alarms))


def test_what_stops_a_run_stands_first_with_its_run(tmp_path, fake):
    runs = [fake.run(tmp_path / name, "agon", steps=3) for name in ("one", "two")]
    _ring(runs[0], WARNED)
    _ring(runs[1], WARNED, STOPPED)
    rows = alarm_rows(collect(runs).runs)
    assert [(row.run, row.name, row.since, row.step, row.is_stop) for row in rows] == [
        ("two", "format-lost", 5, 9, True),
        ("one", "truncated", 0, 4, False),
        ("two", "truncated", 0, 4, False),
    ]


def test_the_page_shows_them_and_has_no_such_part_where_none_sounded(tmp_path, fake):
    run = fake.run(tmp_path / "run", "agon", steps=3)
    write_report([run], tmp_path / "report.html")
    assert "Alarms while training" not in (tmp_path / "report.html").read_text()
    _ring(run, WARNED, STOPPED)
    write_report([run], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    shown = re.sub(r"<[^>]+>|\s+", " ", page)
    assert "Alarms while training" in shown
    assert re.search(r"format-lost +stops the run +B as drafter +5 +9 +none is read", shown)
    assert re.search(r"truncated +A as drafter +0 +4 +many are cut", shown)


def test_of_very_many_the_page_shows_some_and_says_so(tmp_path, fake):
    run = fake.run(tmp_path / "run", "agon", steps=3)
    _ring(run, *[WARNED] * 45, STOPPED)
    write_report([run], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("⚠ truncated") == 39
    assert "6 more are left out" in page
