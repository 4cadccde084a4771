import asyncio
import base64
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from agon.config import TaskSettings
from agon.records import Problem
from agon.serve.arena import MAX_PROBLEMS

ROOT = Path(__file__).parents[3]
STATIC = resources.files("agon.serve") / "static"
PROBLEMS = tuple(
    Problem(id=f"{number:016x}", question=f"question {number}", gold=str(number), task="t", verifier="exact", level=2.0)
    for number in range(120)
)


@pytest.fixture
def fetch(make_service, client_of):
    """Return a function that gets a path of a server that offers the problems."""

    def get(path, *, query=b"", headers=(), task=None, problems=PROBLEMS, keys=()):
        service = make_service(keys=keys, task=task, offer={"problems": problems})
        return asyncio.run(client_of(service).get(path, query=query, headers=headers))

    return get


def test_the_page_allows_no_script_but_its_own_and_no_other_origin(fetch):
    page = fetch("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        **dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'"),
        **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert page.headers["x-content-type-options"] == "nosniff"


def test_nothing_of_the_page_is_written_inline_or_comes_from_elsewhere():
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", page) == []
    everything = "".join(entry.read_text() for entry in STATIC.iterdir())
    # The name space of SVG is a name, and is not fetched.
    assert set(re.findall(r"[a-z]+://[^\s\"')]+", everything)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", everything) == []


def test_every_file_that_the_page_asks_for_is_served_with_its_type(fetch):
    page = (STATIC / "index.html").read_text()
    named = set(re.findall(r'(?:href|src)="arena/static/([^"]+)"', page))
    modules = {name for entry in STATIC.iterdir() for name in re.findall(r'from "\./([^"]+)"', entry.read_text())}
    assert {"main.js", "arena.css", "wire.js"} <= named | modules
    assert {entry.name for entry in STATIC.iterdir()} == named | modules | {"index.html"}
    for name in named | modules:
        file = fetch(f"/arena/static/{name}")
        assert file.status == 200
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}[name.rsplit(".", 1)[1]]
        assert file.headers["content-type"].split(";")[0] == kind
        assert file.content == (STATIC / name).read_bytes()


def test_a_file_that_did_not_change_is_not_sent_again(fetch):
    first = fetch("/arena/static/main.js")
    again = fetch("/arena/static/main.js", headers=[(b"if-none-match", first.headers["etag"].encode())])
    assert (again.status, again.content) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["../arena.py", "..%2farena.py", "none.js", "", "main.js/", "/etc/passwd"])
def test_no_path_leads_out_of_the_pages_files(fetch, name):
    told = fetch(f"/arena/static/{name}")
    assert told.status == 404
    assert told.error["message"]


def test_the_page_can_read_what_is_served(fetch):
    told = fetch("/arena/info").json
    assert (
        told.items()
        >= {
            "name": "a run",
            "task": "custom",
            "form": "text",
            "check": "gold",
            "num_problems": 120,
            "max_draft_tokens": 200,
            "max_tokens": 200,
        }.items()
    )


@pytest.mark.parametrize(
    ("task", "form", "check", "gold"),
    [
        (TaskSettings(name="countdown-lite"), "countdown", "always", "7"),
        (TaskSettings(name="gsm8k"), "text", "gold", "7"),
        (TaskSettings(name="mbpp", answer_style="code"), "text", "never", None),
        (TaskSettings(name="custom", path="p.jsonl", verifier="expression"), "text", "never", None),
    ],
)
def test_a_task_decides_how_a_problem_is_typed_and_whether_it_can_be_checked(fetch, task, form, check, gold):
    info = fetch("/arena/info", task=task).json
    assert (info["form"], info["check"]) == (form, check)
    told = fetch("/arena/problems", query=b"offset=7&limit=1", task=task).json
    assert told["problems"][0]["gold"] == gold


def test_problems_come_a_page_at_a_time(fetch):
    told = fetch("/arena/problems", query=b"offset=118&limit=10").json
    assert told == {
        "total": 120,
        "offset": 118,
        "problems": [
            {"id": f"{number:016x}", "question": f"question {number}", "gold": str(number), "level": 2.0}
            for number in (118, 119)
        ],
    }
    assert len(fetch("/arena/problems").json["problems"]) == 20
    assert fetch("/arena/problems", query=b"offset=999999999").json["problems"] == []
    assert fetch("/arena/problems", problems=()).json == {"total": 0, "offset": 0, "problems": []}


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"limit=0", "limit"),
        (b"limit=%d" % (MAX_PROBLEMS + 1), "limit"),
        (b"offset=-1", "offset"),
        (b"offset=1e3", "offset"),
        (b"offset=%D9%A3", "offset"),
        (b"offset=" + b"9" * 5000, "offset"),
        (b"offset=", "offset"),
        (b"split=train", "split"),
    ],
)
def test_a_page_of_problems_out_of_bounds_is_refused_by_name(fetch, query, param):
    told = fetch("/arena/problems", query=query)
    assert told.status == 400
    assert told.error["param"] == param
    assert len(told.error["message"]) < 200


@pytest.mark.parametrize("path", ["/", "/arena/static/main.js", "/arena/info", "/arena/problems"])
def test_with_a_key_even_the_page_wants_it_as_browsers_send_it(fetch, path):
    refused = fetch(path, keys=("sesame",))
    assert refused.status == 401
    assert "question" not in refused.content.decode()
    sent = b"Basic " + base64.b64encode(b"anybody:sesame")
    assert fetch(path, keys=("sesame",), headers=[(b"authorization", sent)]).status == 200


def test_a_stream_that_shows_drafts_tells_the_verdict_of_each_stage_and_what_was_withheld(make_service, client_of):
    service = make_service(
        lambda turn: f"so it is {turn.role[0]}<answer>{2 if turn.role == 'challenger' else 3}</answer>"
    )

    async def ask(**fields):
        return (await client_of(service).chat("1+1", gold="2", stream=True, **fields)).events

    told = [event["agon"] for event in asyncio.run(ask(include_draft=True))[:-1] if "agon" in event]
    crossed = next(event for event in told if event["event"] == "crossed")
    assert crossed["summary"] == "so it is d[withheld]"
    assert (crossed["num_withheld"], crossed["has_leak"], crossed["is_cut"]) == (1, False, False)
    worth = {stage["role"]: (stage["adapter"], stage["answer"], stage["verdict"]) for stage in told[-1]["stages"]}
    assert worth == {"drafter": ("A", "3", "wrong"), "challenger": ("B", "2", "correct")}
    hidden = [event["agon"] for event in asyncio.run(ask())[:-1] if "agon" in event]
    assert [("stages" in event, event["verdict"]) for event in hidden] == [(False, "correct")]


def test_the_wheel_takes_the_files_of_the_page_along():
    # Hatch packs every file below a package that git does not ignore and no option leaves out.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert settings["targets"]["wheel"] == {"packages": ["src/agon"]}
    assert not {"exclude", "only-include", "artifacts"} & settings.keys()
    ignored = (ROOT / ".gitignore").read_text().split()
    assert not [line for line in ignored if re.search(r"static|serve|\.(?:js|css|html|svg)$", line)]


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_told_apart_in_both_schemes():
    # WCAG 2.2, level AA: 4.5 for text, 3 for the edges of what can be used.
    schemes = re.findall(r":root \{(.*?)\}", (STATIC / "arena.css").read_text(), re.DOTALL)
    assert len(schemes) == 2
    texts = "ink/paper ink/panel ink/pale-bg ink/calm-bg ink/good-bg ink/bad-bg soft/paper soft/panel soft/pale-bg accent/paper accent/panel "
    texts += "on-accent/accent good/good-bg bad/bad-bg bad/panel warn/warn-bg panel/good panel/bad drafter/panel challenger/panel crossing/pale-bg"
    for scheme in schemes:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        pairs = [pair.split("/") for pair in texts.split()]
        assert [pair for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5] == []
        assert contrast(colours["edge"], colours["panel"]) >= 3
