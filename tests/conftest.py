"""Shared by all tests: shape checks on tensor borders, no network, one thread, no deadline on an example."""

from __future__ import annotations

import gc
import inspect
import os
import re

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

import jaxtyping
from hypothesis import settings

_checked = jaxtyping.jaxtyped
_ARRAY = re.compile(r"\b(Tensor|ndarray)\b")


def _checked_at_tensors(*, typechecker):
    """Check what names tensors or arrays and nothing else: a check is slow, and most functions that a sampled token passes have none."""

    def decorate(thing):
        names = map(str, inspect.get_annotations(thing).values())
        return _checked(thing, typechecker=typechecker) if any(_ARRAY.search(name) for name in names) else thing

    return decorate


# Every tensor that crosses a function's border in these packages is checked against its annotated axes.
jaxtyping.jaxtyped = _checked_at_tensors
jaxtyping.install_import_hook(["agon.learner", "agon.rollout", "agon.model"], "beartype.beartype")

# A busy machine may take long over any example; pytest's own timeout catches a hang.
settings.register_profile("agon", deadline=None)
settings.load_profile("agon")

# What the test modules import stays for good: the garbage collector need not look through it again and again.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
