from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from agon.cli.main import build_parser, main
from agon.cli.serve import _access, _keys
from agon.errors import ConfigError


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("AGON_API_KEY", raising=False)


def options(*words):
    return build_parser().parse_args(["serve", "runs/x", *words])


def test_the_defaults_let_in_this_machine_alone():
    asked = options()
    assert (asked.host, asked.port, asked.timeout, asked.grace) == ("127.0.0.1", 8000, 600.0, 30.0)
    access = _access(asked)
    assert (access.keys, access.hosts, access.max_running, access.max_queue) == ((), ("127.0.0.1",), None, 256)
    assert (access.limits.timeout_s, access.limits.max_body_bytes) == (600.0, 2**20)


def test_options_say_who_is_let_in(capsys):
    words = ["--host", "gpu.example", "--allow-host", "other.example", "--max-running", "3", "--max-queue", "0"]
    access = _access(options(*words, "--timeout", "1.5", "--max-body", "1000"))
    assert access.hosts == ("gpu.example", "other.example")
    assert (access.max_running, access.max_queue) == (3, 0)
    assert (access.limits.timeout_s, access.limits.max_body_bytes) == (1.5, 1000)
    assert "AGON_API_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--port", "65536"],
        ["--port", "-1"],
        ["--port", "http"],
        ["--max-running", "0"],
        ["--max-running", "1.5"],
        ["--max-queue", "-1"],
        ["--timeout", "nan"],
        ["--timeout", "0"],
        ["--timeout", "inf"],
        ["--grace", "-1"],
        ["--max-body", "1M"],
        ["--direction", "dev"],
        ["--host", ""],
    ],
)
def test_values_that_make_no_sense_are_refused_in_one_line(words, capsys):
    with pytest.raises(SystemExit) as ended:
        options(*words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_keys_come_from_the_environment_or_a_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("AGON_API_KEY", "one, two,")
    path = tmp_path / "keys"
    path.write_text("three\n\nfour\n")
    assert _keys(None) == ("one", "two")
    assert _access(options("--host", "0.0.0.0")).keys == ("one", "two")
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match="AGON_API_KEY and by --api-key-file"):
        _keys(str(path))
    monkeypatch.delenv("AGON_API_KEY")
    assert _keys(str(path)) == ("three", "four")


@pytest.mark.parametrize(
    ("content", "reason"), [("", "no key"), (" ,\n", "no key"), ("a b", "space"), ("ключ", "sign")]
)
def test_a_place_for_keys_with_none_in_it_does_not_open_the_server(monkeypatch, content, reason):
    monkeypatch.setenv("AGON_API_KEY", content)
    with pytest.raises(ConfigError, match=reason) as error:
        _keys(None)
    assert "AGON_API_KEY" in str(error.value)
    assert not content.strip(" ,\n") or content not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"key\xff", b"\xef\xbb\xbfkey"], ids=["empty", "no text", "byte order mark"])
def test_a_file_that_holds_no_usable_key_is_told(tmp_path, content, capsys):
    (tmp_path / "keys").write_bytes(content)
    assert main(["serve", str(tmp_path), "--api-key-file", str(tmp_path / "keys")]) == 2
    assert capsys.readouterr().err.startswith(f"agon: {tmp_path / 'keys'} holds ")


def test_a_key_file_that_is_not_there_is_told(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--api-key-file", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_an_address_that_is_taken_is_told_before_anything_is_loaded(tmp_path, capsys):
    (tmp_path / "manifest.json").write_text('{"format_version": 1}')
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["serve", str(tmp_path), "--port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"agon: port {port} of 127.0.0.1 is taken: give another --port, or --port 0 for a free one\n"
    )


def test_what_is_no_run_is_told(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none"), "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert "does not exist" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "key", ["train.steps", "reward.format", "train.method", "evaluation.samples", "rollout.temperature"]
)
def test_a_setting_that_serving_does_not_look_at_is_refused_by_name(key, capsys):
    assert main(["serve", "runs/x", "--port", "0", "--set", "rollout.max_rows=4", "--set", f"{key}=1"]) == 2
    told = capsys.readouterr().err
    assert f"--set {key} has no effect in `agon serve`, which looks at model.*, task.*, rollout.engine, " in told
    assert "evaluation.temperature" in told
    assert told.count("\n") == 1


def test_that_it_loads_is_said_before_it_takes_long(capsys, monkeypatch):
    @contextmanager
    def opened(options, access):
        assert capsys.readouterr().err == "agon: loading runs/x\n"
        raise ConfigError("far enough")
        yield

    monkeypatch.setattr("agon.cli.serve._open_run", opened)
    assert main(["serve", "runs/x", "--port", "0"]) == 2
    assert capsys.readouterr().err == "agon: far enough\n"


def test_help_and_service_load_no_torch():
    program = (
        "import sys\nfrom agon.cli.main import main\nfrom agon.cli.serve import _access\n"
        "from agon.cli.main import build_parser\n_access(build_parser().parse_args(['serve', 'x']))\n"
        "import agon.serve.app, agon.serve.server, agon.serve.service\n"
        "assert not {'torch', 'transformers', 'peft'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
