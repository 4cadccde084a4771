import errno
import json
import re

import pytest

from agon.errors import RunError
from agon.runs import (
    checkpoint_step,
    is_last,
    list_checkpoints,
    newest_checkpoint,
    prune_checkpoints,
    read_json,
    verify_checkpoint,
)
from agon.runs.atomic import MARKER
from agon.runs.checkpoints import checkpoint_identity


def test_a_checkpoint_as_written_is_whole(save):
    assert verify_checkpoint(save(12)) is None


def cut(path):
    file = path / "A" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def flip(path):
    file = path / "A" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes().replace(b"w", b"W"))


def change(path, **changes):
    marker = read_json(path / MARKER)
    (path / MARKER).write_text(json.dumps({**marker, **changes}))


def keep_in_marker(path, name):
    change(path, files={name: read_json(path / MARKER)["files"][name]})


def add_to_marker(path, name):
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    change(path, files={name: {"bytes": 0, "sha256": nothing}, **read_json(path / MARKER)["files"]})


DAMAGE = {
    r"A/adapter_model.safetensors has 16 bytes instead of 17": cut,
    r"A/adapter_model.safetensors has another content": flip,
    r"state.json is missing": lambda path: (path / "state.json").unlink(),
    r"complete.json is missing: saving it was interrupted": lambda path: (path / MARKER).unlink(),
    r"complete.json cannot be read": lambda path: (path / MARKER).write_text("{"),
    r"complete.json cannot be read \('files'\)": lambda path: (path / MARKER).write_text("{}"),
    r"state.json has no size or hash": lambda path: (path / MARKER).write_text(
        json.dumps({"files": {"state.json": {}}})
    ),
    r"complete.json cannot be read \(nested too deeply\)": lambda path: (path / MARKER).write_text("[" * 100_000),
    r"complete.json has format version 2, and this agon reads 1: use the agon that wrote it": lambda path: change(
        path, format_version=2
    ),
    r"A/x is not named in complete.json": lambda path: (path / "A" / "x").write_text(""),
    r"A/adapter_model.safetensors is not named in complete.json": lambda path: keep_in_marker(path, "state.json"),
    r"../../../secret leads out of the checkpoint": lambda path: add_to_marker(path, "../../../secret"),
    r"/etc/hostname leads out of the checkpoint": lambda path: add_to_marker(path, "/etc/hostname"),
    r"A/../../x leads out of the checkpoint": lambda path: add_to_marker(path, "A/../../x"),
    r" leads out of the checkpoint": lambda path: add_to_marker(path, ""),
    r"A is no file": lambda path: add_to_marker(path, "A"),
    r"device is no file": lambda path: (add_to_marker(path, "device"), (path / "device").symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_every_kind_of_damage_is_named(save, reason):
    path = save(7)
    DAMAGE[reason](path)
    assert re.match(reason, verify_checkpoint(path) or "")


@pytest.mark.parametrize("name", [MARKER, "A/adapter_model.safetensors"])
def test_a_file_that_may_not_be_read_is_no_damage_and_the_remedy_destroys_nothing(run, save, refuse, name):
    save(2)
    path = save(4)
    refuse(path / name)
    with pytest.raises(RunError) as refused:
        newest_checkpoint(run.path)
    assert str(refused.value) == (
        f"{path / name} cannot be read: permission denied: allow reading it and the folder that holds it (chmod u+rX)"
    )


def test_a_disk_that_fails_and_a_system_without_a_file_left_are_no_damage_either(run, save, refuse):
    path = save(2)
    refuse(path / "state.json", errno.EIO)
    with pytest.raises(RunError, match=r"state\.json cannot be read: the disk failed to read it: look after the disk"):
        newest_checkpoint(run.path)
    refuse(path / MARKER, errno.ENFILE)
    with pytest.raises(RunError, match=r"cannot be read: Too many open files in system: look after it, then try again"):
        newest_checkpoint(run.path)


def test_a_folder_in_the_place_of_the_marker_is_damage(save):
    path = save(2)
    (path / MARKER).unlink()
    (path / MARKER).mkdir()
    assert "complete.json cannot be read" in (verify_checkpoint(path) or "")


def test_a_folder_of_checkpoints_that_may_not_be_listed_is_named_with_the_remedy(run, save, refuse):
    save(2)
    refuse(run.path / "checkpoints")
    with pytest.raises(RunError, match=r"/checkpoints cannot be read: permission denied: allow reading it .*chmod"):
        list_checkpoints(run.path)


def test_pruning_never_counts_a_checkpoint_that_may_not_be_read_as_kept(run, save, refuse):
    paths = [save(step) for step in (1, 2, 3)]
    refuse(paths[2] / MARKER)
    assert prune_checkpoints(run.path, keep=1) == [paths[0]]
    assert list_checkpoints(run.path) == paths[1:]


def test_what_a_file_manager_leaves_behind_is_no_damage(save):
    path = save(7)
    (path / "A" / ".DS_Store").write_text("")
    assert verify_checkpoint(path) is None


def test_a_checkpoint_that_is_a_link_is_pruned_without_what_it_leads_to(run, save, tmp_path):
    oldest, newest = save(1), save(2)
    elsewhere = oldest.rename(tmp_path / "elsewhere")
    oldest.symlink_to(elsewhere)
    assert verify_checkpoint(oldest) is None
    assert prune_checkpoints(run.path, keep=1) == [oldest]
    assert not oldest.is_symlink()
    assert verify_checkpoint(elsewhere) is None
    assert list_checkpoints(run.path) == [newest]


def test_a_checkpoint_saved_in_the_place_of_a_link_leaves_what_that_led_to(run, save, tmp_path):
    path = save(1)
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    assert not save(1).is_symlink()
    assert verify_checkpoint(elsewhere) is None
    assert sorted(entry.name for entry in (run.path / "checkpoints").iterdir()) == ["step-000001"]


def test_the_newest_whole_checkpoint_is_used_and_damaged_newer_ones_are_named(run, save):
    save(2)
    good, interrupted, short = save(4), save(6), save(1_000_000)
    (interrupted / MARKER).unlink()
    cut(short)
    found = newest_checkpoint(run.path)
    assert found.path == good
    assert [(skipped.path, skipped.reason.split(" ")[0]) for skipped in found.skipped] == [
        (short, "A/adapter_model.safetensors"),
        (interrupted, MARKER),
    ]
    assert checkpoint_step(good) == 4


def test_a_run_without_checkpoints_has_no_newest(run):
    assert newest_checkpoint(run.path) == (None, [])


def test_a_checkpoint_whose_saving_was_killed_is_invisible(run, save):
    save(2)
    (run.path / "checkpoints" / ".step-000004.agon-tmp-00000000").mkdir()
    assert [path.name for path in list_checkpoints(run.path)] == ["step-000002"]


def test_pruning_keeps_the_newest_whole_ones(run, save):
    paths = [save(step) for step in (1, 2, 3, 4)]
    assert prune_checkpoints(run.path, keep=2) == [paths[1], paths[0]]
    assert list_checkpoints(run.path) == paths[2:]


def test_pruning_never_counts_a_damaged_checkpoint_as_kept(run, save):
    paths = [save(step) for step in (1, 2, 3)]
    flip(paths[2])
    prune_checkpoints(run.path, keep=1)
    assert newest_checkpoint(run.path).path == paths[1]


def test_saving_a_step_again_replaces_its_damaged_checkpoint(run, save):
    flip(save(3))
    assert verify_checkpoint(save(3)) is None


def test_a_checkpoint_says_itself_that_it_is_the_last_whatever_its_step(run, save):
    with run.checkpoint(5, is_last=True) as folder:
        (folder / "state.json").write_text("{}")
    last = run.path / "checkpoints" / "step-000005"
    assert verify_checkpoint(last) is None
    assert is_last(last, steps=12)
    assert not is_last(save(12), steps=12)  # written by hand, without a word about the end


def test_a_checkpoint_from_before_they_said_so_is_judged_by_its_step(save):
    path = save(12)
    marker = read_json(path / MARKER)
    del marker["is_last"]
    (path / MARKER).write_text(json.dumps(marker))
    assert [is_last(path, steps=steps) for steps in (11, 12, 13)] == [True, True, False]


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_a_checkpoint_with_a_damaged_marker_is_not_the_last(save, content):
    path = save(12)
    (path / MARKER).unlink() if content is None else (path / MARKER).write_text(content)
    assert not is_last(path, steps=12)


def test_a_packed_checkpoint_is_known_for_the_one_it_was_packed_from_and_a_rounded_one_says_so(run, save):
    path = save(3)
    assert checkpoint_identity(path).keys() == {"checkpoint", "sha256"}
    change(path, packed_from="ab")
    assert verify_checkpoint(path) is None
    assert checkpoint_identity(path) == {"checkpoint": "step-000003", "sha256": "ab"}
    assert newest_checkpoint(run.path).notes == ()
    change(path, rounded_to="bfloat16")
    assert checkpoint_identity(path) == {"checkpoint": "step-000003", "sha256": "ab", "rounded_to": "bfloat16"}
    newest = newest_checkpoint(run.path)
    assert newest.notes == ("the adapters of step-000003 were rounded to bfloat16 when it was packed",)
    assert newest.damage == ()


@pytest.mark.parametrize("rounded", ["../../x y", "float32", "", 16, ["bfloat16"]])
def test_a_packed_checkpoint_that_was_rounded_to_no_known_format_is_damaged(run, save, rounded):
    path = save(3)
    change(path, packed_from="ab", rounded_to=rounded)
    said = f"{MARKER} says that the adapters were rounded to {rounded!r}, and this agon knows bfloat16"
    assert verify_checkpoint(path) == said
    newest = newest_checkpoint(run.path)
    assert newest.path is None
    assert newest.damage == (f"checkpoint step-000003 is damaged ({said})",)
    assert "rounded_to" not in checkpoint_identity(path)
