"""Model files as streams: readable by safetensors and transformers, whole, and no larger than asked."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from agon.errors import ModelError
from agon.model.shards import INDEX_FILE, WEIGHTS_FILE, Entry, StoredModel, split, write_model


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return {
        "b.odd": torch.randn(3, generator=generator).to(torch.bfloat16),
        "a.wide": torch.randn(4, 6, generator=generator),
        "c.half": torch.randn(2, 3, 5, generator=generator).to(torch.float16),
        "d.scalar": torch.tensor(7, dtype=torch.int64),
        "e.flag": torch.tensor([True, False]),
        "f.none": torch.zeros(0, 4),
    }


def entries_of(folder):
    return list(StoredModel(folder).entries.values())


def test_what_is_streamed_is_read_back_by_safetensors_bit_for_bit(tmp_path, tensors):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    save_file(tensors, tmp_path / "from" / WEIGHTS_FILE)
    stored = StoredModel(tmp_path / "from")
    write_model(tmp_path / "to", list(stored.entries.values()), lambda entry: stored.read(entry.name))
    written = load_file(tmp_path / "to" / WEIGHTS_FILE)
    assert written.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert written[name].dtype == tensor.dtype
        assert torch.equal(written[name], tensor)
    assert [path.name for path in (tmp_path / "to").iterdir()] == [WEIGHTS_FILE]


def test_files_are_split_in_order_and_named_by_an_index(tmp_path, tensors):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    save_file(tensors, tmp_path / "from" / WEIGHTS_FILE)
    stored = StoredModel(tmp_path / "from")
    # 96 bytes of a.wide fill the first file; 6 + 60 + 8 + 2 + 0 the second.
    write_model(
        tmp_path / "to",
        sorted(stored.entries.values()),
        lambda entry: stored.read(entry.name),
        max_shard_bytes=100,
    )
    index = json.loads((tmp_path / "to" / INDEX_FILE).read_text())
    assert index["metadata"]["total_size"] == 172
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    assert index["weight_map"] == {name: first if name == "a.wide" else second for name in tensors}
    assert torch.equal(StoredModel(tmp_path / "to").read("c.half"), tensors["c.half"])


def test_a_tensor_larger_than_a_file_has_one_of_its_own():
    large, small = Entry("large", "F32", (100,)), Entry("small", "F32", (1,))
    assert split([small, large, small], 8) == [[small], [large], [small]]
    assert split([small, small], 8) == [[small, small]]


def test_the_files_that_transformers_reads_are_read_and_no_others(tmp_path, tensors):
    save_file(tensors, tmp_path / "model-00001-of-00001.safetensors")
    save_file({"other.name": tensors["a.wide"]}, tmp_path / "consolidated.safetensors")
    index = {"weight_map": dict.fromkeys(tensors, "model-00001-of-00001.safetensors")}
    (tmp_path / INDEX_FILE).write_text(json.dumps(index))
    assert set(StoredModel(tmp_path).entries) == set(tensors)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has neither model.safetensors nor model.safetensors.index.json"),
        ("{}", "cannot be used"),
        ("[1]", "cannot be used"),
        ('{"weight_map": {"a": "gone.safetensors"}}', "gone.safetensors is missing or damaged"),
    ],
)
def test_a_folder_without_its_weights_is_refused(tmp_path, content, words):
    if content is not None:
        (tmp_path / INDEX_FILE).write_text(content)
    with pytest.raises(ModelError, match=words):
        StoredModel(tmp_path)


def test_a_cut_file_and_a_quantised_one_are_refused(tmp_path, tensors):
    path = tmp_path / WEIGHTS_FILE
    save_file(tensors, path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelError, match="is missing or damaged"):
        StoredModel(tmp_path)
    save_file({"w": torch.zeros(2, 2).to(torch.float8_e4m3fn)}, path)
    with pytest.raises(ModelError, match="w is stored as F8_E4M3, a quantised number format"):
        StoredModel(tmp_path)


def test_a_disk_that_loses_bits_is_noticed(tmp_path, tensors, monkeypatch):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    save_file(tensors, tmp_path / "from" / WEIGHTS_FILE)
    stored = StoredModel(tmp_path / "from")
    read = StoredModel.read

    def flipped(self, name):
        tensor = read(self, name)
        return tensor + 1 if name == "d.scalar" and self.folder.name == "to" else tensor

    monkeypatch.setattr(StoredModel, "read", flipped)
    with pytest.raises(ModelError, match=r"d.scalar read back differs from what was written"):
        write_model(tmp_path / "to", entries_of(tmp_path / "from"), lambda entry: stored.read(entry.name))
