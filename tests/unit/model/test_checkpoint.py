"""A checkpoint's content comes back bit for bit."""

from __future__ import annotations

import json

import pytest
import torch

from agon.errors import ModelError, RunError
from agon.model.checkpoint import load_adapters, load_checkpoint, save_checkpoint

PROGRESS = {"completed_steps": 7, "note": "warm", "shares": [0.1, None]}


@pytest.fixture
def optimizers():
    generator = torch.Generator().manual_seed(3)
    return {
        name: {"x.exp_avg": torch.randn(3, 4, generator=generator) * 1e-20, "x.step": torch.tensor(5.0)}
        for name in ("A", "B")
    }


def test_everything_comes_back_bit_for_bit(make_base, make_pair, randomise, optimizers, tmp_path):
    pair = make_pair()
    randomise(pair, "A")
    randomise(pair, "B", seed=2)
    for _ in range(3):
        pair.count_step("B")
    save_checkpoint(tmp_path, pair, optimizers=optimizers, progress=PROGRESS)
    other = make_pair(make_base(), seed=8)
    state = load_checkpoint(tmp_path, other)
    assert [other.fingerprint(name) for name in "AB"] == [pair.fingerprint(name) for name in "AB"]
    assert (other.version("A"), other.version("B")) == (0, 3)
    assert state.progress == PROGRESS
    for name in "AB":
        assert state.optimizers[name].keys() == optimizers[name].keys()
        for key, tensor in optimizers[name].items():
            assert torch.equal(state.optimizers[name][key], tensor)
            assert state.optimizers[name][key].dtype == torch.float32
    third = make_pair(make_base(), seed=9)
    load_adapters(third, tmp_path)
    assert third.fingerprint("A") == pair.fingerprint("A")


def test_saving_twice_writes_the_same_bytes(make_pair, optimizers, tmp_path):
    pair = make_pair()
    for folder in ("one", "two"):
        save_checkpoint(tmp_path / folder, pair, optimizers=optimizers, progress=PROGRESS)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 7
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()


def test_damage_another_format_and_another_base_are_named(make_base, make_pair, optimizers, tmp_path):
    pair = make_pair()
    save_checkpoint(tmp_path, pair, optimizers=optimizers, progress=PROGRESS)
    with pytest.raises(ModelError, match="belongs to the base tiny"):
        load_checkpoint(tmp_path, make_pair(make_base(seed=1)))
    moments = tmp_path / "optimizer-B.safetensors"
    whole = moments.read_bytes()
    moments.write_bytes(whole[:-7])
    with pytest.raises(RunError, match=r"optimizer-B\.safetensors is damaged"):
        load_checkpoint(tmp_path, pair)
    moments.write_bytes(whole)
    state_path = tmp_path / "state.json"
    state = json.loads(state_path.read_text())
    state_path.write_text(json.dumps(state | {"format": 99}))
    with pytest.raises(RunError, match="has format 99, this agon reads 1"):
        load_checkpoint(tmp_path, pair)
    for versions in ({"A": 1, "../../elsewhere": 1}, {"": 1}, {"/etc": 1}, ["A"], "A"):
        state_path.write_text(json.dumps(state | {"versions": versions}))
        with pytest.raises(RunError, match=r"state\.json names adapters that none can be called"):
            load_checkpoint(tmp_path, pair)
    state_path.write_text(json.dumps(state | {"progress": [3]}))
    with pytest.raises(RunError, match=r"state\.json tells no progress"):
        load_checkpoint(tmp_path, pair)
    state_path.write_text("[]")
    with pytest.raises(RunError, match=r"state\.json is missing or damaged"):
        load_checkpoint(tmp_path, pair)


def test_a_checkpoint_without_an_optimizer_is_not_trained_on_from_and_can_be_used(make_base, make_pair, tmp_path):
    pair = make_pair()
    save_checkpoint(tmp_path, pair, optimizers={}, progress=PROGRESS)
    (tmp_path / "optimizer-B.safetensors").unlink()
    with pytest.raises(
        RunError, match=r"moments \(optimizer-B\.safetensors\) were left out when it was packed; resume"
    ):
        load_checkpoint(tmp_path, pair)
    other = make_pair(make_base(), seed=8)
    load_adapters(other, tmp_path)
    assert other.fingerprint("A") == pair.fingerprint("A")


def test_an_adapter_that_has_not_learned_yet_has_an_empty_optimizer_file(make_pair, tmp_path):
    # GRPO trains A alone: B's optimiser holds nothing.
    pair = make_pair()
    save_checkpoint(tmp_path, pair, optimizers={}, progress={"completed_steps": 1})
    assert load_checkpoint(tmp_path, pair).optimizers == {"A": {}, "B": {}}


def test_frozen_copies_come_back_bit_for_bit_and_only_training_sees_them(
    make_base, make_pair, randomise, optimizers, tmp_path
):
    pair = make_pair()
    randomise(pair, "A")
    pair.count_step("A")
    pair.snapshot("past-A", "A")
    randomise(pair, "A", seed=2)  # the copy is not what A is by now
    pair.count_step("A")
    save_checkpoint(tmp_path, pair, optimizers=optimizers, progress=PROGRESS)
    other = make_pair(make_base(), seed=8)
    load_checkpoint(tmp_path, other)
    assert other.names == ("A", "B", "past-A")
    assert other.fingerprint("past-A") == pair.fingerprint("past-A")
    assert other.fingerprint("past-A") != other.fingerprint("A")
    assert (other.version("A"), other.version("past-A")) == (2, 1)
    deployed = make_pair(make_base(), seed=9)
    load_adapters(deployed, tmp_path)
    assert deployed.names == ("A", "B")
