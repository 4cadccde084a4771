import pytest

from agon.errors import RunError
from agon.runs import require_free_bytes


def test_too_little_disk_is_refused_with_both_numbers(tmp_path):
    require_free_bytes(tmp_path / "not" / "yet", 1)
    with pytest.raises(RunError, match=r"not/yet has .*B of free disk, but 5e\+05 TB are needed"):
        require_free_bytes(tmp_path / "not" / "yet", 5 * 10**17)
