"""What this machine can run, and why not."""

from __future__ import annotations

import importlib.util
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from agon.audit.findings import Finding
from agon.audit.hardware import TorchProbe, look_at_gpus, look_at_machine
from agon.audit.judge import Check, judge_one, written
from agon.audit.packages import REQUIRED, look_at_packages
from agon.config import VerifierSettings
from agon.records import Problem
from agon.verifiers.registry import open_verifiers
from agon.verifiers.sandbox import Layer, is_isolated
from agon.verifiers.sandbox.report import isolation_report

ISOLATION = "isolation of programs"
NETWORK = "network"
TRAINING = "train and evaluate on the CPU"
_NETWORK_TIMEOUT_S = 5.0
_LAYER_REMEDIES = {
    "linux": "run code tasks on Linux; everything else works here",
    "user namespace": "let unprivileged users make user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container another seccomp profile)",
    "landlock": "Linux 5.13 or newer, booted with landlock among its lsm",
    "seccomp": "a kernel with seccomp filters",
}


class Ability(NamedTuple):
    """Something that agon does, whether it can here, and if not why."""

    name: str
    is_there: bool
    reason: str = ""


class Checkup(NamedTuple):
    """All findings, and what follows from them."""

    findings: list[Finding]
    abilities: list[Ability]

    @property
    def can_train(self) -> bool:
        """Whether agon can do its main work here, however slowly."""
        return any(ability.is_there for ability in self.abilities if ability.name == TRAINING)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "findings": [finding._asdict() for finding in self.findings],
            "can": {ability.name: ability.is_there for ability in self.abilities},
            "why_not": {ability.name: ability.reason for ability in self.abilities if not ability.is_there},
        }


def examine(folder: Path, *, with_network: bool) -> Checkup:
    """Look at the machine, at packages, at the checkers of answers and programs, and at the Hub if that is wanted.

    Takes a few seconds: torch is imported in another process, one formula is compared and one program run for real.
    """
    probe = TorchProbe()
    with ThreadPoolExecutor(3) as threads:
        layers = threads.submit(isolation_report)
        math = threads.submit(_try_math)
        network = threads.submit(look_at_hub) if with_network else None
        packages = look_at_packages()
        torch = probe.result()
        machine = [*look_at_machine(folder), *look_at_gpus(torch)]
        isolation = look_at_isolation(layers.result())
        hub = [network.result()] if network is not None else []
        findings = [*machine, *packages, *isolation, *hub]
        return Checkup(findings, abilities(findings, torch=torch, layers=layers.result(), math=math.result()))


def abilities(
    findings: Sequence[Finding], *, torch: dict[str, Any] | str, layers: Sequence[Layer], math: str
) -> list[Ability]:
    """Conclude from what was found. `math` is why a formula could not be compared, blank if it could."""
    broken = [f"{item.name} is {item.detail}" for item in findings if item.group == REQUIRED and item.state == "broken"]
    no_torch = torch if isinstance(torch, str) else ""
    why_not_train = "; ".join([*broken, *([f"torch: {no_torch}"] if no_torch else [])])
    has_gpu = not isinstance(torch, str) and bool(torch["gpus"])
    vllm = [item.state == "ok" for item in findings if item.name == "vllm"]
    # Where agon itself is not installed, nothing was said of the packages that it asks for.
    has_vllm = all(vllm) if vllm else importlib.util.find_spec("vllm") is not None
    no_gpu = "" if has_gpu else "torch sees no CUDA GPU"
    no_vllm = "" if has_vllm else "vLLM is not installed"
    return [
        _ability(TRAINING, why_not_train),
        _ability("train and evaluate on a GPU", why_not_train or no_gpu),
        _ability("sample with vLLM", no_vllm or no_gpu),
        _ability("check mathematical answers", math),
        _ability("check programs", _why_no_programs(layers)),
    ]


def look_at_isolation(layers: Sequence[Layer]) -> list[Finding]:
    """Say which layers hold a program that nobody trusts."""
    return [
        Finding(
            ISOLATION,
            layer.name,
            "ok" if layer.is_in_force else "missing",
            layer.detail or ("in force" if layer.is_in_force else "not in force"),
            "" if layer.is_in_force else _LAYER_REMEDIES.get(layer.name, ""),
        )
        for layer in layers
    ]


def look_at_hub() -> Finding:
    """Ask the Hub for an answer, within a few seconds."""
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    remedy = "without it, give models and data as local folders and files"
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return Finding(NETWORK, "Hub", "missing", "HF_HUB_OFFLINE is set", "unset it to load by name")
    start = time.monotonic()
    try:
        request = urllib.request.Request(address, method="HEAD", headers={"User-Agent": "agon"})
        with urllib.request.urlopen(request, timeout=_NETWORK_TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        # It answered; whether it likes the question does not matter.
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Finding(NETWORK, "Hub", "missing", f"{address} answers with {error.code}", remedy)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return Finding(NETWORK, "Hub", "missing", f"{address} cannot be reached ({reason})", remedy)
    return Finding(NETWORK, "Hub", "ok", f"{address} answers in {time.monotonic() - start:.1f} s")


def _ability(name: str, why_not: str) -> Ability:
    return Ability(name, not why_not, why_not)


def _why_no_programs(layers: Sequence[Layer]) -> str:
    runs = next((layer for layer in layers if layer.name == "a program runs"), None)
    if runs is None or not runs.is_in_force:
        return runs.detail if runs is not None else (layers[0].detail if layers else "no layer was tried")
    if not is_isolated(layers):
        missing = ", ".join(layer.name for layer in layers if not layer.is_in_force)
        return f"programs cannot be isolated here (missing: {missing}); --unsafe-code-execution accepts the risk"
    return ""


def _try_math() -> str:
    verifiers = open_verifiers(VerifierSettings(workers=1))
    try:
        problem = Problem("checkup", "", "x+y", "checkup", "math")
        verdict = judge_one(verifiers, Check(problem, written(r"\boxed{y+x}"), "boxed", None)).verdict
    finally:
        verifiers.close()
    return "" if verdict.is_correct else f"{verdict.outcome}: {verdict.reason}"
