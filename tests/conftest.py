"""Shared by all tests: shape checks on tensor borders, no network, one thread, no deadline on an example."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"

from hypothesis import settings
from jaxtyping import install_import_hook

# Every tensor that crosses a function's border in these packages is checked against its annotated axes.
install_import_hook(["agon.learner", "agon.rollout", "agon.model"], "beartype.beartype")

# A busy machine may take long over any example; pytest's own timeout catches a hang.
settings.register_profile("agon", deadline=None)
settings.load_profile("agon")
