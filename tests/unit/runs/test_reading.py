import hashlib
import json

import pytest

from agon.errors import RunError
from agon.runs import read_json
from agon.runs.manifest import write_json
from agon.runs.reading import sealed, unsealed

CONTENT = {"rate": 0.1, "half": "\ud83d", "list": [1, {"b": None, "a": -0.0}], "é": 2**70}


def test_what_is_sealed_comes_back_after_any_layout(tmp_path):
    write_json(tmp_path / "x.json", CONTENT)
    assert read_json(tmp_path / "x.json") == CONTENT
    (tmp_path / "x.json").write_text(
        json.dumps(json.loads((tmp_path / "x.json").read_bytes()), indent=7, sort_keys=True)
    )
    assert read_json(tmp_path / "x.json") == CONTENT


def test_the_checksum_is_the_sha256_of_the_compact_sorted_text():
    expected = hashlib.sha256(b'{"a":[1,2],"b":0.5}').hexdigest()
    assert sealed({"b": 0.5, "a": (1, 2)})["checksum"] == expected


def test_a_number_that_changed_by_one_bit_is_damage(tmp_path):
    write_json(tmp_path / "x.json", {"accuracy": 0.125})
    text = (tmp_path / "x.json").read_bytes()
    # "1" is 0x31 and "3" is 0x33: still a number, and valid JSON.
    (tmp_path / "x.json").write_bytes(text.replace(b"0.125", b"0.325"))
    with pytest.raises(
        RunError, match=r"x\.json is damaged \(it was changed after it was written: its checksum differs\)"
    ):
        read_json(tmp_path / "x.json")


def test_every_single_flipped_bit_is_found_or_changes_nothing(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"task": "toy", "n": 12, "rows": [{"id": "a", "correct": [True, False]}]})
    before, whole = read_json(path), path.read_bytes()
    for number in range(8 * len(whole)):
        data = bytearray(whole)
        data[number // 8] ^= 1 << number % 8
        path.write_bytes(data)
        try:
            found = read_json(path)
        except RunError:
            continue
        # What is left is white space, and the name of the checksum itself: then it is one entry more, and nothing less.
        assert found == before or found.keys() > before.keys(), data


def test_content_without_a_checksum_is_taken_as_it_is():
    assert unsealed({"by": "hand"}) == {"by": "hand"}
