import json

import pytest

from agon.errors import DataError
from agon.tasks.reader import open_file


def read(path, columns=("q", "a")):
    table = open_file(str(path), key="task.path")
    return [(row.number, dict(row.values), row.fault) for row in table.read([c for c in columns if c in table.columns])]


def test_jsonl_is_split_at_newlines_only(tmp_path):
    # each of these counts as a line break for str.splitlines
    odd = "a\u2028b\u0085c\fd\x1ce \U0001f600"
    rows = [{"q": odd, "a": 1}, {"q": "second", "a": "2"}]
    path = tmp_path / "x.jsonl"
    path.write_bytes("\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    assert read(path) == [(1, rows[0], ""), (2, rows[1], "")]


def test_byte_order_mark_crlf_and_blank_lines_are_harmless_and_lines_keep_their_numbers(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"q": "x"}\r\n\r\n{"q": "y"}\r\n')
    assert read(path) == [(1, {"q": "x"}, ""), (3, {"q": "y"}, "")]


def test_lines_that_are_no_object_are_told_with_their_number(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"q": "x"}\n{"q": \n[1]\n{"q": "\xff"}\n' + b"[" * 100_000 + b'\n{"q": "y"}')
    rows = read(path)
    assert [number for number, values, _ in rows if values] == [1, 6]
    problems = {number: problem for number, _, problem in rows if problem}
    assert problems[2].startswith("not JSON")
    assert problems[3] == "a JSON list, where an object is wanted"
    assert problems[4] == "not UTF-8 at byte 7"
    assert problems[5].startswith("not JSON")


def test_a_json_list_is_read_like_lines(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('[{"q": "x"}, 3]')
    assert read(path) == [(1, {"q": "x"}, ""), (2, {}, "a JSON int, where an object is wanted")]


def test_csv_keeps_quoted_line_breaks_and_tells_ragged_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b'\xef\xbb\xbfq,a\r\n"two\r\nlines, and ""quotes""",7\r\nshort\r\nlong,1,2\r\nlast,8\r\n')
    fault = "another number of fields than the header"
    assert read(path) == [
        (1, {"q": 'two\r\nlines, and "quotes"', "a": "7"}, ""),
        (2, {}, fault),
        (3, {}, fault),
        (4, {"q": "last", "a": "8"}, ""),
    ]


def test_tsv_is_split_at_tabs(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("q\ta\n1, 2\t3\n")
    assert read(path) == [(1, {"q": "1, 2", "a": "3"}, "")]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_what_is_no_json_number_is_refused_by_row_wherever_it_stands(tmp_path, name, number):
    items = ['{"q": "x"}', f'{{"q": "y", "other": [{{"deep": {number}}}]}}', '{"q": "z"}']
    path = tmp_path / name
    path.write_text("\n".join(items) if name == "x.jsonl" else f"[{', '.join(items)}]")
    fault = f"holds {number}, which is no JSON number"
    assert read(path) == [(1, {"q": "x"}, ""), (2, {}, fault), (3, {"q": "z"}, "")]


def test_the_word_nan_in_a_text_is_text(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"q": "NaN", "a": "Infinity"}')
    assert read(path) == [(1, {"q": "NaN", "a": "Infinity"}, "")]


def test_a_key_that_stands_twice_in_one_object_is_refused_by_row(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"q": "x", "a": 1}\n{"q": "x", "a": 1, "a": 2}\n')
    assert read(path) == [(1, {"q": "x", "a": 1}, ""), (2, {}, "the key 'a' stands twice in one object")]


@pytest.mark.parametrize("text", ['[{"q": 1},]', '[{"q": 1} {"q": 2}]', '[{"q": 1}] 3', "[,]", '[{"q": 1}'])
def test_a_json_list_is_not_repaired(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match="not valid JSON"):
        read(path)


def test_an_empty_list_is_a_table_without_rows(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(" [ ] ")
    assert read(path) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", '{"q": "x"}\n'.encode("utf-16"), "is UTF-16 or UTF-32"),
        ("x.jsonl", '{"q": "x"}\n'.encode("utf-16-le"), "is UTF-16 or UTF-32"),
        ("x.csv", "q,a\n1,2\n".encode("utf-16"), "save it as UTF-8"),
        ("x.jsonl", b"<html>\n<body>", r"holds no JSON object in any of its 2 lines \(line 1: not JSON"),
        ("x.json", b'[3, "x"]', r"no JSON object in any of its 2 items \(item 1: a JSON int"),
        ("x.csv", b"q,answer,a,answer\n1,2,3,4\n", "names the column 'answer' twice in its header"),
    ],
)
def test_a_file_that_holds_something_else_is_told_by_what_it_is(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)
