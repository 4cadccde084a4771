"""Calling a converter that is not ours: found where it is, believed only with a file to show, its failures in one line."""

from __future__ import annotations

import stat
import sys
import tempfile
from pathlib import Path

import pytest

from agon.errors import ConfigError, ModelError
from agon.export import gguf
from agon.export.gguf import SCRIPT, Converter, convert, find_converter

HEAD = "import sys, struct; out = sys.argv[sys.argv.index('--outfile') + 1]\n"
WRITES = HEAD + "open(out, 'wb').write(struct.pack('<4sIQ', b'GGUF', 3, 21) + b'rest')\n"


@pytest.fixture
def llama(tmp_path, monkeypatch):
    """Put a converter of the given text into a folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()

    def put(text=WRITES):
        folder = tmp_path / "llama.cpp"
        folder.mkdir(exist_ok=True)
        (folder / SCRIPT).write_text(text)
        return folder

    return put


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A machine without llama.cpp."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(gguf, "_PLACES", (str(tmp_path / "usual"),))
    (tmp_path / "bin").mkdir()
    return tmp_path


def run(folder, tmp_path, file_type="f16"):
    (tmp_path / "out").mkdir(exist_ok=True)
    return convert(
        find_converter(str(folder), {}), tmp_path / "model", tmp_path / "out", stem="base-agon-A", file_type=file_type
    )


def test_a_converter_is_found_as_asked_by_its_variable_on_the_path_and_where_it_usually_lies(llama, alone):
    script = llama() / SCRIPT
    python = (sys.executable, str(script))
    assert find_converter(str(script), {}) == Converter(script, python)
    assert find_converter(str(script.parent), {}) == Converter(script, python)
    assert find_converter(None, {"LLAMA_CPP": str(script.parent)}) == Converter(script, python)
    (alone / "usual").mkdir()
    (alone / "usual" / SCRIPT).write_text("")
    assert find_converter(None, {}).path == alone / "usual" / SCRIPT
    on_path = alone / "bin" / SCRIPT
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(on_path.stat().st_mode | stat.S_IXUSR)
    assert find_converter(None, {}).path == on_path


def test_a_script_runs_in_its_own_environment_if_it_has_one_and_a_program_by_itself(llama, tmp_path):
    folder = llama()
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("")
    assert find_converter(str(folder), {}).command == (str(python), str(folder / SCRIPT))
    program = tmp_path / "convert-hf-to-gguf"
    program.write_text("")
    assert find_converter(str(program), {}).command == (str(program),)


def test_without_a_converter_the_remedy_is_told(alone):
    with pytest.raises(
        ConfigError, match=r"not on PATH: get llama.cpp's source and set LLAMA_CPP to its folder, or give"
    ):
        find_converter(None, {})
    with pytest.raises(ConfigError, match=r"--gguf-converter is '/no/such', where there is no convert_hf_to_gguf.py"):
        find_converter("/no/such", {})
    with pytest.raises(ConfigError, match=r"LLAMA_CPP is '.*bin', where there is no"):
        find_converter(None, {"LLAMA_CPP": str(alone / "bin")})


def test_a_converted_file_is_counted_and_leaves_no_log(llama, tmp_path):
    made = run(llama(), tmp_path)
    assert made == gguf.GgufFile("base-agon-A-f16.gguf", "f16", 21, 20)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["base-agon-A-f16.gguf"]
    assert list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "print('so far so good'); raise ValueError('no such layer: x')",
            "failed (ValueError: no such layer: x): see ",
        ),
        ("import sys; sys.exit(3)", "failed (exit status 3, and it said nothing): see "),
        ("import no_such_module", "install what it needs (its requirements.txt) for the Python that runs it"),
        (
            "raise NotImplementedError('BPE pre-tokenizer was not recognized - update get_vocab_base_pre()')",
            "llama.cpp does not know the tokenizer of this base: use --merge without --gguf",
        ),
        ("print('done')", "wrote 0 files instead of one: see "),
        (HEAD + "open(out, 'wb').write(b'GGUF')", "which is no GGUF file with tensors: see "),
        (HEAD + "open(out, 'wb').write(bytes(64))", "which is no GGUF file with tensors: see "),
    ],
)
def test_a_failed_conversion_is_one_line_with_the_path_of_the_log_that_is_kept(llama, tmp_path, text, words):
    folder = llama(text)
    with pytest.raises(ModelError) as caught:
        run(folder, tmp_path)
    told = str(caught.value)
    assert words in told
    assert len(told.splitlines()) == 1
    (log,) = (tmp_path / "logs").iterdir()
    assert str(log) in told


def test_a_program_that_may_not_be_run_is_told_of(llama, tmp_path):
    llama()
    program = tmp_path / "converter"
    program.write_text("")
    with pytest.raises(ModelError, match="converter cannot be run"):
        run(program, tmp_path)
    assert list((tmp_path / "logs").iterdir()) == []


def test_an_interrupt_leaves_no_log(llama, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(gguf.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(llama(), tmp_path)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
