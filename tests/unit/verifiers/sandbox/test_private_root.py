from __future__ import annotations

import os

from agon.verifiers.sandbox.private_root import why_unreadable


def as_ordinary_user(function):
    """What a function returns where no right of root helps it."""
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(tell, function().encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(heard, "rb") as answer:
        return answer.read().decode()


def test_a_folder_that_python_lies_in_and_this_user_cannot_enter_is_named(tmp_path):
    python = tmp_path / "closed" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "closed").chmod(0)
    try:
        os.chown(tmp_path, 65534 if os.getuid() == 0 else -1, -1)
        reason = as_ordinary_user(lambda: why_unreadable([str(python)]))
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert reason.startswith("this user cannot read ")
    assert f"and Python needs {python}" in reason


def test_what_can_be_read_has_no_reason():
    assert why_unreadable() == ""
