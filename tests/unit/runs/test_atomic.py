import json
from hashlib import sha256
from pathlib import Path

import pytest

from agon.errors import RunError
from agon.runs.atomic import (
    MARKER,
    atomic_directory,
    atomic_file,
    atomic_write_text,
    remove_leftovers,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_with_utf8_and_unchanged_newlines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    atomic_write_text(path, "né\r\nw\n")
    assert path.read_bytes() == "né\r\nw\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_an_interrupted_write_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted():
        with atomic_file(path) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_device_is_written_to_and_not_replaced():
    atomic_write_text(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()


def test_a_path_through_a_file_is_one_line_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/inner.*a part of the path is a file: give another folder") as caught:
        atomic_write_text(tmp_path / "file" / "inner", "x")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_says_so_and_how_to_go_on():
    # Linux's /dev/full refuses every write with ENOSPC.
    with pytest.raises(RunError, match="the disk is full: free some space, then try again"):
        atomic_write_text(Path("/dev/full"), "x" * 100_000)


def test_a_folder_appears_whole_with_size_and_hash_of_every_file(tmp_path):
    path = tmp_path / "deep" / "step-000001"
    with atomic_directory(path) as folder:
        assert not path.exists()
        (folder / "A").mkdir()
        (folder / "A" / "w").write_bytes(b"abc")
        (folder / "s.json").write_bytes(b"")
    assert names(path) == ["A", MARKER, "s.json"]
    assert json.loads((path / MARKER).read_text())["files"] == {
        "A/w": {"bytes": 3, "sha256": sha256(b"abc").hexdigest()},
        "s.json": {"bytes": 0, "sha256": sha256(b"").hexdigest()},
    }
    assert names(path.parent) == ["step-000001"]


def test_a_folder_without_a_marker_holds_what_was_put_there_and_nothing_else(tmp_path):
    with atomic_directory(tmp_path / "out", has_marker=False) as folder:
        (folder / "w").write_text("x")
    assert names(tmp_path / "out") == ["w"]
    assert names(tmp_path) == ["out"]


def test_a_failed_folder_leaves_what_was_there_before(tmp_path):
    path = tmp_path / "out"
    with atomic_directory(path) as folder:
        (folder / "w").write_text("first")

    def broken():
        with atomic_directory(path) as folder:
            (folder / "w").write_text("second")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert (path / "w").read_text() == "first"
    assert names(tmp_path) == ["out"]


def test_a_folder_that_is_there_is_replaced_whole(tmp_path):
    path = tmp_path / "out"
    path.mkdir()
    (path / "stale").write_text("x")
    with atomic_directory(path) as folder:
        (folder / "w").write_text("new")
    assert names(path) == [MARKER, "w"]
    assert names(tmp_path) == ["out"]


def test_leftovers_of_a_killed_process_are_removed_and_nothing_else(tmp_path):
    (tmp_path / ".x.agon-tmp-0a1b2c3d").mkdir()
    (tmp_path / ".y.agon-tmp-0a1b2c3d").write_text("half")
    (tmp_path / ".keep").write_text("")
    (tmp_path / "kept").write_text("")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".keep", "kept"]
