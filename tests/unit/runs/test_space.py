import pytest

from agon.errors import RunError
from agon.runs import require_free_bytes
from agon.runs.space import require_writable


def test_too_little_disk_is_refused_with_both_numbers(tmp_path):
    require_free_bytes(tmp_path / "not" / "yet", 1)
    with pytest.raises(RunError, match=r"not/yet has .*B of free disk, but 5e\+05 TB are needed"):
        require_free_bytes(tmp_path / "not" / "yet", 5 * 10**17)


def test_a_place_below_a_file_is_refused_and_nothing_is_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file is a file"):
        require_writable(tmp_path / "file" / "a" / "run")
    require_writable(tmp_path / "b" / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
