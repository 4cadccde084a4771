import gzip
import json
from dataclasses import replace

import pytest

from agon.errors import RunError
from agon.records import to_json
from agon.runs import match_from_json, read_matches, write_matches


def test_matches_come_back_equal(tmp_path, match):
    path = tmp_path / "m.jsonl.gz"
    write_matches(path, [match, match])
    assert list(read_matches(path)) == [match, match]


def test_a_line_is_the_json_of_the_record(tmp_path, match):
    write_matches(tmp_path / "m.jsonl.gz", [match])
    assert (
        gzip.decompress((tmp_path / "m.jsonl.gz").read_bytes())
        == json.dumps(to_json(match), ensure_ascii=False).encode() + b"\n"
    )


def test_the_same_matches_give_the_same_bytes_whatever_the_name(tmp_path, match):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_matches(tmp_path / name, [match])
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    # Bytes 4-8 of a gzip header are the time.
    assert (tmp_path / "a.jsonl.gz").read_bytes()[4:8] == b"\0\0\0\0"


def test_a_line_separator_inside_a_text_does_not_cut_the_line(tmp_path, match):
    tree = to_json(match)
    tree["problem"]["question"] = "one\u2028two\x85three\nfour, half a pair: \ud83d"
    odd = match_from_json(tree)
    write_matches(tmp_path / "m.jsonl.gz", [odd])
    assert list(read_matches(tmp_path / "m.jsonl.gz")) == [odd]


def test_fields_with_defaults_may_be_missing_and_others_may_not(match):
    tree = json.loads(json.dumps(to_json(match)))
    del tree["summaries"]
    assert match_from_json(tree).summaries == ()
    del tree["drafts"][0]["verdict"]["outcome"]
    with pytest.raises(KeyError, match="Verdict without outcome"):
        match_from_json(tree)


def test_an_emptied_file_is_damage_and_not_a_file_without_matches(tmp_path, match):
    path = tmp_path / "m.jsonl.gz"
    write_matches(path, [])
    assert list(read_matches(path)) == []
    path.write_bytes(b"")
    with pytest.raises(RunError, match=r"m\.jsonl\.gz is damaged after line 0 \(it is empty\)"):
        list(read_matches(path))


def test_a_damaged_file_is_named_with_the_line(tmp_path, match):
    path = tmp_path / "m.jsonl.gz"
    write_matches(path, [match] * 50)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(RunError, match=r"m\.jsonl\.gz is damaged after line"):
        list(read_matches(path))
    write_matches(path, [match] * 50)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    # Where the flipped byte stands decides whether the stream or a line of it is seen to be damaged first.
    with pytest.raises(RunError, match=r"m\.jsonl\.gz( is damaged after line|, line \d+ is not a match)"):
        list(read_matches(path))
    with gzip.open(path, "wb") as stream:
        stream.write(b'{"problem": 3}\n')
    with pytest.raises(RunError, match=r"m\.jsonl\.gz, line 1 is not a match"):
        list(read_matches(path))
    with pytest.raises(RunError, match="is missing"):
        list(read_matches(tmp_path / "absent.gz"))


def test_writing_what_cannot_be_iterated_to_the_end_leaves_nothing(tmp_path, match):
    def broken():
        yield match
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_matches(tmp_path / "m.jsonl.gz", broken())
    assert list(tmp_path.iterdir()) == []


def test_matches_that_take_more_bytes_than_they_may_leave_nothing(tmp_path, match):
    write_matches(tmp_path / "all.jsonl.gz", [match] * 9)
    size = (tmp_path / "all.jsonl.gz").stat().st_size
    assert write_matches(tmp_path / "fits.jsonl.gz", [match] * 9, max_bytes=size)
    assert (tmp_path / "fits.jsonl.gz").read_bytes() == (tmp_path / "all.jsonl.gz").read_bytes()
    assert not write_matches(tmp_path / "more.jsonl.gz", [match] * 9, max_bytes=size - 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl.gz", "fits.jsonl.gz"]


def test_a_match_too_long_to_be_read_back_is_left_out_with_a_warning(tmp_path, match, monkeypatch):
    monkeypatch.setattr("agon.runs.matches.MAX_LINE_BYTES", 5000)
    long = replace(match, problem=replace(match.problem, question="x" * 5000))
    with pytest.warns(UserWarning, match=r"m\.jsonl\.gz lacks 2 matches, each longer than 5,000 bytes"):
        write_matches(tmp_path / "m.jsonl.gz", [long, match, long])
    assert list(read_matches(tmp_path / "m.jsonl.gz")) == [match]


def test_a_file_that_was_packed_to_fill_the_memory_is_refused(tmp_path, match, monkeypatch):
    monkeypatch.setattr("agon.runs.matches.MAX_LINE_BYTES", 1_000_000)
    write_matches(tmp_path / "x.jsonl.gz", [match])
    with gzip.open(tmp_path / "x.jsonl.gz", "ab") as stream:
        stream.write(b'{"problem": "' + b" " * 20_000_000)
    found = read_matches(tmp_path / "x.jsonl.gz")
    assert next(found) == match
    with pytest.raises(RunError, match=r"line 2 is not a match \(it is longer than 1,000,000 bytes\)"):
        next(found)


@pytest.mark.parametrize(("line", "reason"), [("[" * 100_000, "nested too deeply"), ('{"level": NaN}', "holds NaN")])
def test_a_line_that_agon_would_not_have_written_is_named(tmp_path, line, reason):
    with gzip.open(tmp_path / "x.jsonl.gz", "wb") as stream:
        stream.write(line.encode() + b"\n")
    with pytest.raises(RunError, match=rf"line 1 is not a match \({reason}"):
        list(read_matches(tmp_path / "x.jsonl.gz"))


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, match, refuse):
    path = tmp_path / "m.jsonl.gz"
    write_matches(path, [match])
    refuse(path)
    with pytest.raises(RunError, match=r"m\.jsonl\.gz cannot be read: permission denied: allow reading it"):
        list(read_matches(path))
