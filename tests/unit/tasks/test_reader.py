import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agon.errors import ConfigError, DataError
from agon.tasks.reader import open_file


def read(path, columns=("q", "a")):
    table = open_file(str(path), key="task.path")
    return [(row.number, dict(row.values), row.fault) for row in table.read([c for c in columns if c in table.columns])]


def test_gzip_is_seen_by_its_content(tmp_path):
    for name in ("x.jsonl.gz", "x.jsonl"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b'{"q": "x"}\n'))
        assert read(path) == [(1, {"q": "x"}, "")]


def test_parquet_gives_plain_python_values_and_loads_only_the_columns_asked_for(tmp_path):
    path = tmp_path / "x.parquet"
    chat = [{"role": "user", "content": "x"}]
    pq.write_table(pa.table({"q": [chat], "a": [[1, 2]], "flag": [True], "huge": ["z" * 1000]}), path)
    assert read(path, ("q", "a", "flag")) == [(1, {"q": chat, "a": [1, 2], "flag": True}, "")]
    values = read(path, ("a", "flag"))[0][1]
    assert type(values["a"]) is list
    assert type(values["flag"]) is bool


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("absent.jsonl", None, ConfigError, r"task\.path is '.*absent\.jsonl', which is no file"),
        ("x.txt", b"hello", ConfigError, r"the name must end in"),
        ("x.parquet", b"no parquet", DataError, "not a Parquet file"),
        ("x.jsonl.gz", b"\x1f\x8b broken", DataError, "cannot be read"),
        ("x.csv", b'q,a\n"open,1\n', DataError, "not valid CSV"),
        ("x.csv", b"q,a\n\xff,1\n", DataError, "not UTF-8"),
        ("x.json", b'[{"q": 1}, ', DataError, "not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path, name, content, error, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_what_unpacks_to_fill_the_memory_is_refused_before_it_does(tmp_path, monkeypatch):
    # A gigabyte of zeros as gzip has a megabyte; here a hundredth of that, with a lower bound.
    monkeypatch.setattr("agon.tasks.reader._ALWAYS_READ", 1024 * 1024)
    line = b'{"q": "' + b"0" * 10_000_000 + b'"}\n'
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(line))
    pq.write_table(
        pa.table({"q": ["0" * 10_000_000]}), tmp_path / "x.parquet", compression="zstd", use_dictionary=False
    )
    for name in ("x.jsonl.gz", "x.parquet"):
        assert (tmp_path / name).stat().st_size < 20_000
        with pytest.raises(DataError, match=r"unpacks to more than 1,[\d,]+, which no table of problems does"):
            read(tmp_path / name)


def test_a_packed_file_of_ordinary_rows_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("agon.tasks.reader._ALWAYS_READ", 1)
    rows = b"".join(b'{"q": "what is %d + %d?", "a": "%d"}\n' % (n, n * n, n + n * n) for n in range(2000))
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(rows))
    assert len(read(tmp_path / "x.jsonl.gz")) == 2000


@pytest.mark.parametrize(
    "address", ["https://me:password1@host/x.jsonl", "file:///etc/x.jsonl", "hf://datasets/a/b.jsonl"]
)
def test_an_address_is_no_file_and_its_password_is_not_repeated(address):
    with pytest.raises(ConfigError, match=r"which is an address: download it, and give the file") as caught:
        open_file(address, key="task.path")
    assert "password1" not in str(caught.value)


def test_a_home_folder_of_nobody_is_told_in_one_line():
    with pytest.raises(ConfigError, match=r"~no-such-user/x\.jsonl"):
        open_file("~no-such-user/x.jsonl", key="task.path")


def test_a_name_that_the_system_refuses_is_told_in_one_line():
    with pytest.raises(ConfigError, match=r"task\.path is 'x+\.jsonl', which cannot be opened"):
        open_file("x" * 300 + ".jsonl", key="task.path")


def test_a_parquet_file_damaged_anywhere_is_told_in_one_line(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"q": [f"question {number}" for number in range(50)], "a": ["1"] * 50}), path)
    whole = path.read_bytes()
    faults = []
    # the footer at the end and the pages before it are read at different times
    for start in range(4, len(whole) - 8, 16):
        path.write_bytes(whole[:start] + b"\xa5" * 16 + whole[start + 16 :])
        try:
            read(path)
        except DataError as error:
            faults.append(str(error))
    assert any("damaged after row" in fault for fault in faults)
    assert not [fault for fault in faults if "\n" in fault]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="which is a folder"):
        open_file(str(tmp_path), key="task.test_path")
