import base64
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agon.errors import RunError
from agon.records import to_json
from agon.report import write_report
from agon.runs import match_from_json, read_json, write_evaluation

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, the text outside scripts, the embedded data."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data: dict[str, object] = {}
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.text += " "
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script" and attributes.get("type") == "application/json":
            self.data[attributes["id"]] = json.loads(data)
        elif tag not in ("script", "style"):
            self.text += data


def report_of(*paths, out=None) -> Page:
    out = out or paths[0].parent / "report.html"
    write_report(paths, out)
    return Page(out.read_text(encoding="utf-8"))


def words(page: Page) -> str:
    return re.sub(r"\s+", " ", page.text)


def test_the_page_asks_the_network_for_nothing(parent):
    page = report_of(parent)
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "img", "base")
        for name in ("src", "href", "action", "srcset", "data", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, name, value)
    source = (parent.parent / "report.html").read_text()
    assert "@import" not in source
    assert "url(" not in source
    assert "default-src 'none'" in source
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\s*\(", source)


def test_scripts_show_text_only_as_text(parent):
    report_of(parent)
    source = (parent.parent / "report.html").read_text()
    assert "textContent" in source
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source)


HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)> {{ 7*7 }} {% raw %} ]]> \u2028 \ud83d end"


@pytest.fixture
def hostile(tmp_path, fake):
    """A run in which every text of a model, a data set or a file is an attack."""
    run = fake.run(tmp_path / "run", "agon", steps=3)
    tree = to_json(fake.match(random.Random(0), 0))
    for attempt in (*tree["drafts"], tree["challenge"]):
        attempt["completion"]["text"] = HOSTILE
        attempt["prompt"]["text"] = HOSTILE
        attempt["verdict"] |= {"answer": HOSTILE, "reason": HOSTILE}
    tree["summaries"][0]["text"] = HOSTILE
    tree["problem"] |= {"question": HOSTILE, "gold": HOSTILE, "id": HOSTILE}
    match = match_from_json(tree)
    result = fake.evaluation("agon", [match, fake.match(random.Random(1), 1)], protocol=HOSTILE, method="agon")
    result |= {
        "title": HOSTILE,
        "task": HOSTILE,
        "notes": [HOSTILE],
        "split": HOSTILE,
        "conversion": 0.5,
        "regression": 0.5,
    }
    write_evaluation(run, "agon", result, [match])
    alarm = {"name": HOSTILE, "about": HOSTILE, "message": HOSTILE, "since": HOSTILE, "step": 2, "mode": "stop"}
    (run / "alarms.jsonl").write_text(json.dumps(alarm) + "\n")
    config = read_json(run / "config.json")
    config["task"] = {"path": HOSTILE}
    (run / "config.json").write_text(json.dumps(config))
    return run


def test_hostile_text_stays_text(hostile):
    page = report_of(hostile)
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert [attributes.get("id") for attributes in scripts] == ["curves-data", "reader-data", None]
    assert not [
        1 for tag, attributes in page.elements if tag == "img" or any(name.startswith("on") for name in attributes)
    ]
    shown = HOSTILE.replace("\ud83d", "?")
    assert page.data["reader-data"]["shelves"][0]["matches"][0]["drafts"][0]["text"] == shown
    assert "alert(2)> {{ 7*7 }} {% raw %}" in page.text
    # A template that was run would have multiplied. A bare 49 may stand in a time of day.
    assert "alert(2)> 49" not in page.text


def test_the_policy_of_the_page_names_its_own_script_by_its_hash(parent):
    write_report([parent], parent.parent / "r.html")
    source = (parent.parent / "r.html").read_text()
    (script,) = re.findall(r"<script>(.*?)</script>", source, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in source
    assert source.count("unsafe-inline") == 1  # of styles


def test_the_name_of_a_folder_stays_text(tmp_path, fake):
    run = fake.run(tmp_path / "<script>alert(3)<!--", "agon", steps=2)
    found = report_of(run)
    assert "<script>alert(3)<!--" in found.text
    ids = [attributes.get("id") for tag, attributes in found.elements if tag == "script"]
    assert ids == ["curves-data", "reader-data", None]


def test_every_evaluation_has_its_row_with_interval_n_and_tokens(parent):
    text = words(report_of(parent))
    results = read_json(parent / "agon" / "evaluations" / "agon.json")
    interval = f"[{results['interval']['low']:.3f}, {results['interval']['high']:.3f}]"
    tokens = results["tokens"]
    assert (
        f"agon cascade b-a {results['accuracy']:.3f} {interval} 20 {tokens['draft']:.1f} 12.5 {tokens['challenge']:.1f} "
        f"{tokens['total']:.1f} 48.0"
    ) in text
    for label in ("zero-shot", "grpo", "grpo-doubled-cap", "grpo-self-cascade", "moa-untrained", "cooperative"):
        assert label in text
    assert "95 % interval: clopper-pearson, resampling unit: problem" in text
    assert "direction b-a chosen on 64 development problems (a-b 0.703, b-a 0.719)" in text


def test_rows_run_from_the_base_to_the_pair(parent):
    page = report_of(parent)
    titles = [shelf["title"] for shelf in page.data["reader-data"]["shelves"]]
    assert titles[:7] == [
        "untrained base: zero-shot",
        "untrained base: moa-untrained",
        "grpo",
        "grpo-doubled-cap",
        "grpo: grpo-self-cascade",
        "cooperative",
        "agon",
    ]
    assert titles[7:] == [f"{name}: training, step 11" for name in ("grpo-doubled-cap", "cooperative", "agon", "grpo")]


def test_the_same_run_folders_give_the_same_bytes(parent, tmp_path):
    write_report([parent], tmp_path / "a.html")
    write_report([parent], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_single_runs_can_be_laid_side_by_side(tmp_path, fake):
    runs = [fake.run(tmp_path / group / "agon", "agon", seed=seed, steps=5) for seed, group in enumerate(("s0", "s1"))]
    page = report_of(*runs, out=tmp_path / "deep" / "folder" / "r.html")
    assert [run["name"] for run in page.data["curves-data"]["runs"]] == ["s0/agon", "s1/agon"]
    assert "train.seed 0 1" in words(page)


def test_a_run_that_has_just_begun_has_a_report(tmp_path, fake):
    run = fake.run(tmp_path / "run", "agon", steps=0, num_matches=0)
    text = words(report_of(run))
    assert "Nothing has been evaluated yet" in text


def test_secrets_do_not_pass_from_a_run_folder_into_the_report(tmp_path, fake):
    run = fake.run(tmp_path / "run", "agon", steps=2)
    config = read_json(run / "config.json")
    config["tracking"]["api_key"] = "very-secret-value"
    (run / "config.json").write_text(json.dumps(config))
    report_of(run)
    assert "very-secret-value" not in (tmp_path / "report.html").read_text()


def test_what_is_no_run_or_cannot_be_written_is_one_line(tmp_path, fake):
    with pytest.raises(RunError, match="does not exist"):
        write_report([tmp_path / "absent"], tmp_path / "r.html")
    run = fake.run(tmp_path / "run", "grpo", steps=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot write .*: a (part of the path is a file|file of that name)"):
        write_report([run], tmp_path / "file" / "r.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run"]


def test_an_evaluation_without_its_interval_is_refused(tmp_path, fake):
    run = fake.run(tmp_path / "run", "grpo", steps=2)
    write_evaluation(run, "bare", {"accuracy": 0.5, "n": 10})
    with pytest.raises(RunError, match=r"bare\.json has no accuracy, n or interval"):
        write_report([run], tmp_path / "r.html")


DRIVE = """<script>addEventListener("load", () => {
  const press = (key, target = document.body) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const app = document.getElementById("reader-app");
  const out = { errors: window.failures, charts: document.querySelectorAll(".chart path.curve").length };
  press("ArrowRight"); press("j"); press("k");
  out.where = app.querySelector(".where").textContent;
  const [shelf, cell] = app.querySelectorAll("select");
  out.shelf = shelf.selectedOptions[0].textContent;
  out.stages = [...app.querySelectorAll(".stages h4")].map((node) => node.textContent);
  cell.value = "right-right"; cell.dispatchEvent(new Event("change"));
  out.marks = [...new Set([...app.querySelectorAll(".list .mark")].map((node) => node.textContent))];
  const search = app.querySelector("input"); search.value = "no such text"; search.dispatchEvent(new Event("input"));
  out.none = app.querySelector(".where").textContent;
  const chart = document.querySelector(".chart svg"); press("ArrowLeft", chart);
  const tip = document.querySelector(".tip"); out.tip = tip.hidden ? "hidden" : tip.textContent;
  [...document.querySelectorAll("#results th button")].find((button) => button.textContent === "pass@1").click();
  out.sorted = [...document.querySelectorAll("#results tbody tr")].map((row) => Number(row.cells[3].textContent));
  out.width = document.documentElement.scrollWidth;
  const result = document.createElement("pre"); result.id = "driven"; result.textContent = JSON.stringify(out); document.body.append(result);
});</script>"""
CATCH = (
    "<script>window.failures = []; addEventListener('error', (event) => window.failures.push(event.message));</script>"
)


def dom_of(source: str, folder: Path) -> str:
    """Return what a browser makes of a page, its scripts run."""
    (folder / "page.html").write_text(source)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += f" --disable-component-update --disable-sync --window-size=1300,900 --user-data-dir={folder / 'profile'}"
    command = [str(CHROMIUM), *flags.split(), "--dump-dom", (folder / "page.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ}).stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_runs_the_pages_own_script_and_no_other(parent, tmp_path):
    write_report([parent], tmp_path / "r.html")
    attack = "document.title = 'attacked'"
    source = (tmp_path / "r.html").read_text()
    source = source.replace("</body>", f'<script>{attack}</script><img src="x" onerror="{attack}"></body>')
    dom = dom_of(source, tmp_path)
    assert dom.count('<figure class="chart">') > 10
    assert "<title>attacked</title>" not in dom


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_draws_the_curves_and_the_reader_obeys_keys_and_filters(parent, tmp_path):
    write_report([parent], tmp_path / "r.html")
    # The page's policy names its own script by its hash, and would not run the test's.
    source = re.sub(r"'sha256-[^']+'", "'unsafe-inline'", (tmp_path / "r.html").read_text())
    source = source.replace("<body>", "<body>" + CATCH).replace("</body>", DRIVE + "</body>")
    dom = dom_of(source, tmp_path)
    found = re.search(r'<pre id="driven">(.*?)</pre>', dom)
    assert found is not None
    out = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    assert out["errors"] == []
    assert out["charts"] > 30
    assert (out["shelf"], out["where"], out["none"]) == ("agon (20)", "2 of 20", "0 matches")
    assert [title.split(" ")[0] for title in out["stages"]] == ["draft", "summary", "challenge"]
    assert out["marks"] == ["✓→✓"]
    assert out["tip"].startswith("step 11")
    assert out["sorted"] == sorted(out["sorted"], reverse=True)
    assert out["width"] <= 1300


def test_templates_are_small_files_and_hold_no_closing_tag_of_their_own():
    folder = Path(__file__).parents[3] / "src" / "agon" / "report" / "templates"
    for path in folder.glob("*.js"):
        assert "</script" not in path.read_text()
        assert len(path.read_text().splitlines()) < 250
    assert "</style" not in (folder / "report.css").read_text()
