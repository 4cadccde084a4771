import random
import re
import shutil
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from agon.answers import reasoning_end
from agon.config import TaskSettings
from agon.errors import EngineError
from agon.match.asking import Sampling
from agon.methods.registry import method_named
from agon.records import Problem
from agon.serve.admission import Admission
from agon.serve.app import create_app
from agon.serve.models import Offer, run_models
from agon.serve.scripted import ScriptedBackend
from agon.serve.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

DRAFT = "<think>\ntwo and\ntwo</think>\nI add them up.\nTherefore the answer is 5.\n<answer>5</answer>"
CHALLENGE = "<think>no, four</think>It is one more than three.\n<answer>4</answer>"
MEAN = "<think><script>window.hit = 1</script></think><img src=x onerror='window.hit = 2'><b>bold</b> &amp; <answer>4</answer>"
SLOW_S = 30.0
PROBLEMS = [
    Problem(id=f"{number:016x}", question=f"{number} + 2 = ?", gold=str(number + 2), task="sums", verifier="exact")
    for number in range(2, 27)
]


def script(turn):
    question, is_draft = turn.problem.question, turn.role == "drafter"
    if "mean" in question:
        return MEAN
    if "breaks" in question and not is_draft:
        return ["<think>so far", EngineError("the engine failed: out of memory")]
    if "endless" in question and is_draft:
        return "on and on" * 50
    if "wide" in question:
        return f"<answer>{'9' * 180}</answer>"
    return DRAFT if is_draft else CHALLENGE


def seconds(turn):
    is_slow = f"slow {turn.role}" in turn.problem.question
    return SLOW_S if is_slow else 0.1


class Served:
    """The real application over a script, on a port of this machine."""

    def __init__(self, session, *, keys=()):
        self.backend = ScriptedBackend(script, seconds=seconds, num_pieces=10)

        async def check(problem, completion, style):
            (verdict,) = session.verifiers.verify([(problem, completion)], style)
            return verdict

        offer = Offer(
            name="sums-agon",
            models=run_models(method_named("agon"), "a-b"),
            sampling=Sampling(max_draft_tokens=300, max_challenge_tokens=300, max_summary_tokens=100),
            prompts=session.prompts,
            summarizer=session,
            style=session.style,
            task=TaskSettings(name="custom", verifier="exact"),
            method="agon",
            problems=PROBLEMS,
        )
        service = Service(offer, self.backend, check, Admission(max_running=2, max_queue=0), keys=keys)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        config = uvicorn.Config(create_app(service), log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()

    def wait_until_free(self, within_s):
        end = time.monotonic() + within_s
        while self.backend.num_open and time.monotonic() < end:
            time.sleep(0.01)
        return self.backend.num_open == 0


@pytest.fixture(scope="module")
def served(make_session_once):
    with Served(make_session_once(lambda prompt, request: "")[0]) as one:
        yield one


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(served, chromium):
    """Return a function that opens the arena as in a visit of its own. What a page must never do fails the test at its end."""
    opened = []

    def open_one(url=served.url, *, width=1280, refuses=False, **context):
        seen = SimpleNamespace(console=[], hosts=set(), refuses=refuses)
        of_its_own = chromium.new_context(viewport={"width": width, "height": 800}, **context)
        page = of_its_own.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: seen.console.append(message.text))
        page.on("pageerror", lambda error: seen.console.append(str(error)))
        page.on("request", lambda request: seen.hosts.add(request.url.split("/")[2]))
        page.goto(url)
        opened.append((of_its_own, seen))
        return page

    yield open_one
    for of_its_own, seen in opened:
        of_its_own.close()
        # Chromium itself writes down every request that was refused.
        expected = [line for line in seen.console if "Failed to load resource" in line and seen.refuses]
        assert seen.console == expected
        assert len(seen.hosts) == 1


def play(page, problem, *, gold=None, model=None):
    page.get_by_label("Problem", exact=True).fill(problem)
    if gold is not None:
        page.get_by_label("Right answer").fill(gold)
    if model is not None:
        page.locator(".choice", has_text=re.compile(f"{model}$")).click()
    page.get_by_role("button", name="Start").click()


def wait_for_end(page):
    expect(page.get_by_role("button", name="Start")).to_be_enabled()


def stage(page, kind):
    return page.locator(f".stage.{kind}")


def test_draft_and_challenge_stream_side_by_side_and_the_summary_crosses_without_the_answer(open_page):
    page = open_page()
    play(page, "2 + 2 = ?", gold="4")
    expect(stage(page, "drafter")).to_have_attribute("data-state", "running")
    expect(stage(page, "challenger")).to_contain_text("waits for the draft")
    expect(page.locator(".outcome")).to_contain_text("draft wrong → challenge right")
    draft, crossing, challenge = (stage(page, kind) for kind in ("drafter", "crossing", "challenger"))
    expect(draft.locator(".thought")).to_have_text("two and\ntwo")
    expect(draft).to_contain_text("Therefore the answer is 5.")
    expect(draft.locator(".answer")).to_contain_text("answer 5")
    expect(draft.locator(".badge")).to_have_text("wrong")
    # Its answer stood in a phrase and in a block, and none of its reasoning crosses.
    expect(crossing.locator("mark.withheld")).to_have_count(2)
    expect(crossing.locator(".badge")).to_have_text("2 withheld")
    assert crossing.locator(".text").inner_text() == "I add them up.\nTherefore the answer is withheld.\nwithheld"
    expect(challenge.locator(".badge")).to_have_text("right")
    # A token a character and one to stop; the prompt of the draft is the bare question.
    expect(draft.locator(".facts")).to_have_text(re.compile(rf"^{len(DRAFT) + 1} tokens in 0\.\d\d s; prompt of 9$"))
    expect(page.locator(".outcome")).to_contain_text(f"{len(DRAFT) + len(CHALLENGE) + 2} tokens in all")
    boxes = [one.bounding_box() for one in (draft, crossing, challenge)]
    assert boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]


def test_text_of_a_model_is_shown_and_never_run(open_page):
    page = open_page()
    play(page, "mean <img src=y onerror='window.hit = 3'>", gold="<b>4</b>")
    wait_for_end(page)
    expect(stage(page, "challenger").locator(".text")).to_contain_text(
        "<img src=x onerror='window.hit = 2'><b>bold</b> &amp;"
    )
    expect(stage(page, "drafter").locator(".thought")).to_have_text("<script>window.hit = 1</script>")
    expect(page.locator("#match .problem .text")).to_have_text("mean <img src=y onerror='window.hit = 3'>")
    assert page.evaluate("[window.hit, document.querySelectorAll('main img, main b, main script').length]") == [None, 0]


@pytest.mark.parametrize("slow", ["drafter", "challenger"])
def test_stop_keeps_what_had_arrived_and_frees_the_place_on_the_server(open_page, served, slow):
    page = open_page(reduced_motion="reduce")
    given_up = served.backend.num_given_up
    play(page, f"slow {slow}")
    running = stage(page, slow)
    expect(running).to_have_attribute("data-state", "running")
    expect(running.locator(".facts")).to_contain_text("writing for")
    assert (
        running.evaluate(
            "node => getComputedStyle(node.querySelector('.text > div:last-child'), '::after').animationName"
        )
        == "none"
    )
    assert served.backend.num_open == 1
    page.keyboard.press("Escape")
    expect(page.locator(".outcome")).to_contain_text("Stopped by you")
    expect(running.locator(".facts")).to_have_text("broken off here")
    assert served.wait_until_free(within_s=2.0)
    assert served.backend.num_given_up == given_up + 1
    expect(page.locator("#history .mark")).to_have_text("■")
    expect(page.locator("#score")).to_contain_text("Nothing yet")


def test_an_error_in_mid_stream_is_told_and_what_had_arrived_stays(open_page):
    page = open_page()
    play(page, "breaks")
    expect(page.get_by_role("alert").filter(has_text="the engine failed: out of memory")).to_contain_text(
        "What had arrived is kept"
    )
    expect(page.locator(".outcome")).to_contain_text("Failed")
    expect(stage(page, "drafter")).to_contain_text("I add them up.")
    expect(stage(page, "challenger").locator(".thought")).to_have_text("so far")
    wait_for_end(page)


def test_a_server_that_vanishes_in_mid_stream_is_no_short_answer(open_page, make_session_once):
    with Served(make_session_once(lambda prompt, request: "")[0]) as brief:
        page = open_page(brief.url, refuses=True)
        play(page, "slow challenger")
        expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    expect(page.locator(".outcome")).to_contain_text("Failed")
    wait_for_end(page)
    play(page, "2 + 2 = ?")
    expect(page.locator("#match .error-box")).to_contain_text("The server cannot be reached.")
    expect(page.locator("#history li")).to_have_count(1)


def test_a_full_server_says_when_to_start_again_and_leaves_no_match_behind(open_page, served):
    page = open_page(refuses=True)
    body = {"model": "drafter", "messages": [{"role": "user", "content": "slow drafter"}], "stream": True}
    with httpx.Client(trust_env=False) as client:
        for _ in range(2):
            response = client.send(
                client.build_request("POST", f"{served.url}/v1/chat/completions", json=body), stream=True
            )
            assert response.status_code == 200
        play(page, "2 + 2 = ?")
        expect(page.locator("#match .error-box")).to_contain_text(re.compile(r"Start again in \d+ s\."))
        expect(page.locator("#match h2")).to_contain_text("Not played")
        expect(page.locator("#visit")).to_be_hidden()
    assert served.wait_until_free(within_s=2.0)
    play(page, "2 + 2 = ?")
    expect(page.locator("#match h2")).to_contain_text("Match 1")
    wait_for_end(page)


def test_the_direction_switch_swaps_who_drafts_and_players_can_be_seen_alone(open_page):
    page = open_page()
    assert page.locator(".choice").all_inner_texts() == [
        "A → B\ncascade",
        "B → A\ncascade-b-a",
        "A alone\ndrafter",
        "B alone\nchallenger",
        "base alone\nbase",
    ]
    play(page, "2 + 2 = ?", gold="4", model="cascade-b-a")
    expect(page.locator(".outcome")).to_contain_text("challenge right")
    expect(stage(page, "drafter").locator("h3")).to_contain_text("by B")
    expect(stage(page, "challenger").locator("h3")).to_contain_text("by A")
    play(page, "2 + 2 = ?", model="base")
    expect(page.locator(".outcome")).to_contain_text("answer wrong")
    expect(page.locator(".stage")).to_have_count(1)
    assert page.locator("#score tbody tr").all_inner_texts() == ["B → A\t1\t0\t1\t1\t0", "base alone\t1\t–\t0\t–\t–"]


def test_a_match_of_the_visit_is_shown_again_and_can_be_asked_again_with_its_seed(open_page):
    page = open_page()
    play(page, "first", gold="5")
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge wrong")
    seed = re.search(r"seed (\d+)", page.locator("#match h2").inner_text())[1]
    play(page, "second", gold="4")
    expect(page.locator(".outcome")).to_contain_text("draft wrong → challenge right")
    assert page.locator("#history .mark").all_inner_texts() == ["✗→✓", "✓→✗"]
    assert page.locator("#score tbody tr").all_inner_texts() == ["A → B\t2\t1\t1\t1\t1"]
    page.locator("#history button").nth(1).click()
    expect(page.locator("#match .problem")).to_contain_text("first")
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge wrong")
    expect(page.locator("#history [aria-current=true]")).to_contain_text("first")
    page.get_by_role("button", name="Ask this again").click()
    expect(page.get_by_label("Problem", exact=True)).to_have_value("first")
    expect(page.get_by_label("Seed")).to_have_value(seed)
    expect(page.get_by_label("Right answer")).to_have_value("5")


def test_a_running_match_goes_on_while_an_older_one_is_looked_at(open_page):
    page = open_page()
    play(page, "2 + 2 = ?", gold="4")
    wait_for_end(page)
    play(page, "slow challenger", gold="4")
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    page.locator("#history button").nth(1).click()
    expect(stage(page, "challenger")).to_have_attribute("data-state", "ended")
    page.locator("#history button").nth(0).click()
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    page.get_by_role("button", name="Stop").click()
    wait_for_end(page)


def test_a_stage_that_was_cut_at_its_cap_says_so_and_its_stand_in_crosses(open_page):
    page = open_page()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Most tokens of the draft").fill("40")
    play(page, "endless", gold="4")
    expect(page.locator(".outcome")).to_contain_text("challenge right")
    expect(stage(page, "drafter").locator(".facts")).to_contain_text("40 tokens in")
    expect(stage(page, "drafter").locator(".facts")).to_contain_text("cut off at the cap")
    expect(stage(page, "crossing").locator(".badge")).to_have_text("stand-in")


def test_a_picked_problem_brings_its_right_answer_which_typing_takes_away(open_page):
    page = open_page()
    problem, gold = page.get_by_label("Problem", exact=True), page.get_by_label("Right answer")
    page.get_by_role("button", name="The run's test problems").click()
    expect(page.locator("#problems .where")).to_have_text("1 to 10 of 25")
    page.get_by_role("button", name="next").click()
    expect(page.locator("#problems .where")).to_have_text("11 to 20 of 25")
    page.get_by_role("button", name="12 + 2 = ?").click()
    expect(problem).to_have_value("12 + 2 = ?")
    expect(gold).to_have_value("14")
    problem.press_sequentially("!")
    expect(gold).to_have_value("")
    page.get_by_role("button", name="One at random").click()
    expect(problem).to_have_value(re.compile(r"^\d+ \+ 2 = \?$"))
    assert gold.input_value() == str(int(problem.input_value().split()[0]) + 2)


def test_a_visit_needs_no_mouse_and_the_focus_is_always_seen(open_page):
    page = open_page()
    focused = "document.activeElement"
    seen = (
        f"getComputedStyle({focused}.matches('.choice input') ? {focused}.nextElementSibling : {focused}).outlineStyle"
    )
    order = []
    for _ in range(8):
        page.keyboard.press("Tab")
        order.append(page.evaluate(f"{focused}.id || {focused}.name || {focused}.className || {focused}.parentNode.id"))
        assert page.evaluate(seen) != "none"
    assert order == ["skip", "problem", "random", "browse", "gold", "model", "start", "more"]
    page.focus("#problem")
    page.keyboard.type("line one")
    page.keyboard.press("Enter")
    page.keyboard.type("slow challenger")
    expect(page.locator("#problem")).to_have_value("line one\nslow challenger")
    page.keyboard.press("Control+Enter")
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    expect(page.locator("#said")).to_have_text("Match 1: Challenge by B is being written.")
    page.keyboard.press("Escape")
    expect(page.locator("#said")).to_have_text("Match 1: Stopped by you.")
    page.focus("input[name=model]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    # Start cannot be pressed while a match is played: the focus is where it can be stopped, and comes back.
    expect(page.locator("#stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#start")).to_be_focused()
    expect(page.locator("#match h2")).to_contain_text("B → A")


@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_shows_the_stages_below_each_other_and_never_scrolls_sideways(open_page, width):
    page = open_page(width=width, is_mobile=True, has_touch=True)
    widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    before = page.evaluate(widths)
    page.get_by_role("button", name="The run's test problems").click()
    page.get_by_text("More", exact=True).click()
    play(page, "wide" + "x" * 300, gold="9" * 180)
    wait_for_end(page)
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge right")
    after = page.evaluate(widths)
    assert before[0] <= before[1] == width
    assert after[0] <= after[1] == width
    boxes = [stage(page, kind).bounding_box() for kind in ("drafter", "crossing", "challenger")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert boxes[1]["y"] + boxes[1]["height"] <= boxes[2]["y"]
    assert len({box["x"] for box in boxes}) == 1


def test_the_browser_itself_asks_for_the_key_and_sends_it_along(open_page, make_session_once):
    with Served(make_session_once(lambda prompt, request: "")[0], keys=("open sesame",)) as guarded:
        assert httpx.get(guarded.url, trust_env=False).status_code == 401
        page = open_page(guarded.url, http_credentials={"username": "any", "password": "open sesame"})
        play(page, "2 + 2 = ?", gold="4")
        expect(page.locator(".outcome")).to_contain_text("challenge right")


def test_reasoning_ends_on_the_page_where_it_ends_for_verdicts(open_page):
    page = open_page()
    pieces = [
        "<think>",
        "</think>",
        "<|channel>thought",
        "<channel|>",
        "so ",
        "\n",
        "<answer>4</answer>",
        "<b>",
        "<thinking>",
    ]
    rng = random.Random(0)
    texts = ["".join(rng.choices(pieces, k=rng.randint(0, 8))) for _ in range(400)]
    split = "async (texts) => { const m = await import('/arena/static/text.js'); return texts.map((text) => m.splitReasoning(text).visible); }"
    assert page.evaluate(split, texts) == [text[reasoning_end(text) :].lstrip() for text in texts]


def test_a_stream_is_read_the_same_however_its_bytes_were_cut(open_page):
    page = open_page()
    stream = ': drafting\n\ndata: {"a": "é😀"}\n\ndata:x\ndata: y\r\n\r\n: more\n\ndata: [DONE]\n\n'
    read = """async ([bytes, size]) => {
      const { readEvents } = await import("/arena/static/wire.js");
      const all = new Uint8Array(bytes);
      const body = new ReadableStream({ start(controller) {
        for (let at = 0; at < all.length; at += size) controller.enqueue(all.slice(at, at + size));
        controller.close();
      } });
      const out = [];
      for await (const data of readEvents(body)) out.push(data);
      return out;
    }"""
    for size in (1, 2, 3, 7, 1000):
        assert page.evaluate(read, [list(stream.encode()), size]) == ['{"a": "é😀"}', "x\ny", "[DONE]"]
