import errno
import os
from pathlib import Path

import pytest

from agon.records import Attempt, Completion, Match, Problem, Prompt, Summary, Verdict
from agon.runs import RunFolder


@pytest.fixture
def match() -> Match:
    def attempt(role, adapter, text, outcome):
        completion = Completion((5, 6, 7), (-0.1, -2.5, -0.03125), text, "stop", adapter, 4)
        return Attempt(role, adapter, Prompt((1, 2), "q"), completion, Verdict(outcome, 1.0, "why", "7", "7"), 1.0)

    return Match(
        problem=Problem("id1", "What is 3 + 4?", "7", "toy", "numeric", level=2.0, details={"numbers": [3, 4]}),
        sample=1,
        drafts=(attempt("drafter", "A", "é <script>", "wrong"), attempt("drafter", None, "", "truncated")),
        summaries=(Summary("tried", False, False, 1, 3), Summary("(no summary)", True, False, 0)),
        challenge=attempt("challenger", "B", "7", "correct"),
    )


@pytest.fixture
def run(tmp_path: Path):
    with RunFolder.create(tmp_path / "run", settings={"train": {"steps": 3}}) as folder:
        yield folder


@pytest.fixture
def save(run: RunFolder):
    """Save a checkpoint with two small files and return its folder."""

    def _save(step: int) -> Path:
        with run.checkpoint(step) as folder:
            (folder / "A").mkdir()
            (folder / "A" / "adapter_model.safetensors").write_bytes(b"weights of step %d" % step)
            (folder / "state.json").write_text("{}")
        return run.path / "checkpoints" / f"step-{step:06d}"

    return _save


@pytest.fixture
def refuse(monkeypatch):
    """Let the system refuse to open a file, or to list a folder, as it does for want of a right (root has every right)."""

    def _refuse(refused: Path, code: int = errno.EACCES) -> None:
        def guarded(plain):
            def _guarded(path, *args, **options):
                if path == refused:
                    raise OSError(code, os.strerror(code), str(path))
                return plain(path, *args, **options)

            return _guarded

        monkeypatch.setattr(Path, "open", guarded(Path.open))
        monkeypatch.setattr(Path, "iterdir", guarded(Path.iterdir))

    return _refuse
