from __future__ import annotations

from email.message import Message
from importlib import metadata

import pytest

from agon.audit.packages import OPTIONAL, REQUIRED, look_at_packages

REQUIRES = [
    "torch>=2.11",
    "peft>=0.21",
    "tomli; python_version < '3.0'",
    'wandb>=0.18; extra == "wandb"',
    'vllm>=0.20; extra == "gpu"',
    'ruff; extra == "dev"',
]


@pytest.fixture
def installed(monkeypatch):
    """Say which versions there are."""
    versions = {}
    extras = Message()
    for extra in ("dev", "gpu", "wandb"):
        extras["Provides-Extra"] = extra

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(metadata, "metadata", lambda name: extras)
    monkeypatch.setattr(metadata, "version", version)
    return versions


def test_packages_are_compared_with_what_agon_asks_for(installed):
    installed |= {"torch": "2.12.0+cu130", "peft": "0.9", "wandb": "0.20.1"}
    found = {finding.name: finding for finding in look_at_packages()}
    assert list(found) == ["torch", "peft", "vllm", "wandb"]
    assert [finding.group for finding in found.values()] == [REQUIRED, REQUIRED, OPTIONAL, OPTIONAL]
    assert [finding.state for finding in found.values()] == ["ok", "broken", "missing", "ok"]
    assert found["peft"].detail == "0.9, but agon needs >=0.21"
    assert found["peft"].remedy == 'pip install "peft>=0.21"'
    assert found["vllm"].remedy == 'pip install "agon-rl[gpu]"'


def test_a_package_that_agon_cannot_do_without_is_broken(installed):
    installed |= {"torch": "2.12.0"}
    assert {finding.name: finding.state for finding in look_at_packages()}["peft"] == "broken"


def test_an_agon_that_is_not_installed_says_so(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    (finding,) = look_at_packages()
    assert "pip install -e ." in finding.remedy
