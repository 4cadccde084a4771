from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from agon.verifiers.sandbox import Limits
from agon.verifiers.tester import Tester

_spec = importlib.util.spec_from_file_location("plain_sandbox", Path(__file__).with_name("plain_sandbox.py"))
assert _spec is not None
assert _spec.loader is not None
plain_sandbox = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plain_sandbox)


@pytest.fixture(scope="module")
def tester():
    """A test process that does not confine itself: the tests of the judge need no isolation."""
    made = Tester(lambda: None)
    yield made
    made.close()


@pytest.fixture
def make_sandbox():
    """Return the class of the stand-in sandbox."""
    return plain_sandbox.PlainSandbox


@pytest.fixture
def limits():
    return Limits(5.0, 256, 1)
