from __future__ import annotations

import os
import subprocess
import sys

# Stands for a cell that trains with vLLM the first time; the second time it finds itself trained.
MODULE = """
import os
from agon.cli.cell import _renew_process
from agon.rollout import vllm_server

def main(arguments):
    if "TRAINED" not in os.environ:
        os.environ["TRAINED"] = "yes"
        vllm_server._started.append("small")
        print("trained", os.getpid(), arguments, flush=True)
    _renew_process()
    print("measured", os.getpid(), arguments, flush=True)
    return 0
"""


def test_a_cell_that_has_run_vllm_is_measured_by_a_new_program_in_the_same_process(tmp_path):
    (tmp_path / "fake_cell.py").write_text(MODULE)
    ended = subprocess.run(
        [sys.executable, "-m", "agon.ablation.logged", "fake_cell", "recipe.toml", "single-a"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = ended.stdout.splitlines()
    assert first.split(maxsplit=2) == ["trained", second.split()[1], "['recipe.toml', 'single-a']"]
    assert second.split(maxsplit=2)[::2] == ["measured", "['recipe.toml', 'single-a']"]
