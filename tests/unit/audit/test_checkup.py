from __future__ import annotations

import importlib.util
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agon.audit.checkup import TRAINING, Checkup, abilities, look_at_hub, look_at_isolation
from agon.audit.findings import Finding
from agon.audit.packages import REQUIRED
from agon.verifiers.sandbox import Layer

CPU = {"version": "2.13.0", "built_for": None, "mps": False, "varlen": False, "flash": "", "gpus": []}
CUDA = CPU | {"gpus": [{"name": "H", "capability": "9.0", "free": 1, "total": 2}]}
NAMESPACES = [Layer(f"{name} namespace", True, "") for name in ("user", "process", "file system", "network")]
ISOLATED = [*NAMESPACES, Layer("resource limits", True, ""), Layer("a program runs", True, "")]
VLLM = Finding("optional packages", "vllm", "ok", "0.26")


def can(findings=(), *, torch=CPU, layers=ISOLATED, math=""):
    return {one.name: one.reason for one in abilities(findings, torch=torch, layers=layers, math=math)}


def test_what_is_all_there_can_all_be_done():
    assert set(can([VLLM], torch=CUDA).values()) == {""}


def test_each_thing_that_is_lacking_says_what_it_prevents():
    assert can()["train and evaluate on a GPU"] == "torch sees no CUDA GPU"
    assert can(torch=CUDA)["sample with vLLM"] == "vLLM is not installed"
    assert can([VLLM])["sample with vLLM"] == "torch sees no CUDA GPU"
    assert can(math="error: no worker")["check mathematical answers"] == "error: no worker"


def test_vllm_counts_where_agon_itself_is_not_installed(monkeypatch):
    # Nothing is known of the packages that it asks for then; one that can be imported is there.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "vllm" else None)
    assert can(torch=CUDA)["sample with vLLM"] == ""
    assert can([VLLM._replace(state="broken")], torch=CUDA)["sample with vLLM"] == "vLLM is not installed"


def test_a_broken_package_or_torch_prevents_training():
    broken = Finding(REQUIRED, "peft", "broken", "0.1, but agon needs >=0.21")
    assert can([broken])[TRAINING] == "peft is 0.1, but agon needs >=0.21"
    assert "libc" in can(torch="importing it failed: libc")[TRAINING]
    fit = Checkup([], abilities([], torch=CPU, layers=[], math=""))
    unfit = Checkup([], abilities([broken], torch=CPU, layers=ISOLATED, math=""))
    assert (fit.can_train, unfit.can_train) == (True, False)
    assert unfit.to_json()["can"][TRAINING] is False
    assert unfit.to_json()["why_not"][TRAINING] == "peft is 0.1, but agon needs >=0.21"


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([Layer("linux", False, "programs run only on Linux")], "programs run only on Linux"),
        ([*ISOLATED[:-1], Layer("a program runs", False, "killed")], "killed"),
        ([Layer("user namespace", False, "denied"), *ISOLATED[1:]], "missing: user namespace"),
        ([], "no layer was tried"),
    ],
)
def test_programs_are_not_run_where_nothing_holds_them(layers, said):
    assert said in can(layers=layers)["check programs"]


def test_a_layer_that_is_not_in_force_says_why_and_what_would_help():
    (there, absent) = look_at_isolation(
        [Layer("seccomp", True, ""), Layer("landlock", False, "Function not implemented")]
    )
    assert (there.state, there.detail) == ("ok", "in force")
    assert (absent.state, absent.detail) == ("missing", "Function not implemented")
    assert "5.13" in absent.remedy


@pytest.fixture
def server():
    """A server that answers with the status its address ends in."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(int(self.path.strip("/")))
            self.end_headers()

        def log_message(self, *_):
            return

    with HTTPServer(("127.0.0.1", 0), Answer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize(("status", "state"), [(200, "ok"), (404, "ok"), (503, "missing")])
def test_a_hub_that_answers_can_be_reached_unless_it_is_in_trouble(monkeypatch, server, status, state):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", f"{server}/{status}")
    assert look_at_hub().state == state


def test_a_hub_that_is_not_there_or_not_wanted_is_missing_with_the_remedy(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for address in ("http://127.0.0.1:9", "no address"):
        monkeypatch.setenv("HF_ENDPOINT", address)
        found = look_at_hub()
        assert found.state == "missing"
        assert address in found.detail
        assert "local folders" in found.remedy
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert look_at_hub().detail == "HF_HUB_OFFLINE is set"
