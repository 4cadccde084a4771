from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from agon.errors import EngineError
from agon.rollout import vllm_server
from agon.rollout.vllm_options import ServerOptions


@pytest.fixture
def start(monkeypatch):
    """Return a function that starts a vLLM whose engine refuses to."""

    def refuse(*_):
        raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED\nand a second line")

    parts = SimpleNamespace(LLMEngine=SimpleNamespace(from_engine_args=refuse), EngineArgs=lambda **_: None)
    monkeypatch.setattr(vllm_server, "is_available", lambda: True)
    monkeypatch.setattr(vllm_server, "_vllm", lambda module: parts)
    monkeypatch.setattr(vllm_server, "_started", [])
    options = ServerOptions(Path("small"), 4, 64, 1 << 20, 0.2)
    return lambda: vllm_server.start_server(options, dtype=torch.float32, stop_ids=[1])


def test_a_refused_start_gives_the_reason_and_another_engine(start):
    with pytest.raises(EngineError, match=r'small \(it->second.*FAILED\): set rollout.engine = "torch"') as refused:
        start()
    assert "second line" not in str(refused.value)
    assert not vllm_server.was_started()


def test_a_second_start_that_is_refused_is_told_by_its_cause(start):
    vllm_server._started.append("other")
    with pytest.raises(EngineError, match=r"run it before, with other, .*begin a new one$"):
        start()
