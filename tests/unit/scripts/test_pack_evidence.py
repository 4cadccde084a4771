from __future__ import annotations

import io
import runpy
import tarfile
from pathlib import Path

import pytest

pack = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "pack_evidence.py"))["pack"]


@pytest.fixture
def matrix(tmp_path):
    """A matrix with what runs have: settings, numbers, matches, two checkpoints, a link."""
    cell = tmp_path / "matrix" / "cells" / "agon-s0"
    files = {
        "matrix.json": "{}",
        "cells/agon-s0/metrics.jsonl": "{}",
        "cells/agon-s0/matches/step-000000.jsonl.gz": "texts",
        "cells/agon-s0/checkpoints/step-000001/A/adapter_model.safetensors": "old",
        "cells/agon-s0/checkpoints/step-000002/A/adapter_model.safetensors": "new",
        "cells/agon-s0/checkpoints/step-000002/A/adapter_config.json": "{}",
        "cells/agon-s0/checkpoints/step-000002/optimizer-A.safetensors": "large",
    }
    for name, content in files.items():
        path = tmp_path / "matrix" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (cell / "secret.json").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "matrix"


def names_in(parts):
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        return {name.removeprefix("matrix/") for name in archive.getnames()}


@pytest.mark.parametrize(
    ("matches", "adapters", "more"),
    [
        (False, False, set()),
        (True, False, {"cells/agon-s0/matches/step-000000.jsonl.gz"}),
        (
            False,
            True,
            {
                "cells/agon-s0/checkpoints/step-000002/A/adapter_model.safetensors",
                "cells/agon-s0/checkpoints/step-000002/A/adapter_config.json",
            },
        ),
    ],
)
def test_what_is_asked_for_is_packed_and_joins_again(matrix, tmp_path, matches, adapters, more):
    parts = pack(matrix, tmp_path / "out", part_bytes=100, matches=matches, adapters=adapters)
    assert len(parts) > 1
    assert all(part.stat().st_size <= 100 for part in parts)
    assert names_in(parts) == {"matrix.json", "cells/agon-s0/metrics.jsonl"} | more


def test_a_folder_without_anything_to_pack_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="holds nothing to pack"):
        pack(tmp_path / "empty", tmp_path / "out", part_bytes=100, matches=False, adapters=False)
    assert not (tmp_path / "out").exists()
