"""The arena in a real browser, served by the real application over a script."""

import shutil
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

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
    if f"slow {turn.role}" in question:
        return ["<think>", "so", *[" on"] * 298]
    if "breaks" in question and not is_draft:
        return ["<think>so far", EngineError("the engine failed: out of memory")]
    if "endless" in question and is_draft:
        return "on and on" * 50
    if "wide" in question:
        return f"<answer>{'9' * 180}</answer>"
    if "drafts" in question and turn.request.adapter == "B":
        return CHALLENGE
    return DRAFT if is_draft else CHALLENGE


def seconds(turn):
    is_slow = f"slow {turn.role}" in turn.problem.question
    return SLOW_S if is_slow else 0.1


def logprob(turn):
    return -0.1 if turn.request.adapter == "B" else -0.5


class Served:
    """The real application over a script, on a port of this machine."""

    draft = DRAFT
    challenge = CHALLENGE

    def __init__(self, session, *, keys=()):
        self.backend = ScriptedBackend(script, seconds=seconds, num_pieces=10, logprob=logprob)

        async def check(problem, completion, style):
            (verdict,) = session.verifiers.verify([(problem, completion)], style)
            return verdict

        offer = Offer(
            name="sums-agon",
            models=run_models(method_named("agon"), "a-b"),
            sampling=Sampling(max_draft_tokens=300, max_challenge_tokens=300, max_summary_tokens=100),
            prompts=session.prompts,
            summarizer=session.summarizer,
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
def serve(make_session_once):
    """Return a function that makes a server: a context manager, which ends it."""
    session, _ = make_session_once(lambda prompt, request: "")
    return lambda **options: Served(session, **options)


@pytest.fixture(scope="module")
def served(serve):
    with serve() as one:
        yield one


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    # Other tests may run beside these.
    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--renderer-process-limit=1"]
        )
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
        page.set_default_timeout(15_000)
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
