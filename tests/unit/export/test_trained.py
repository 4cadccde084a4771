from __future__ import annotations

import json

import pytest

from agon.errors import ConfigError, RunError
from agon.export.trained import read_trained


@pytest.fixture
def base(make_base):
    return make_base()


def test_a_checkpoint_is_read_with_the_adapters_asked_for(make_run, base):
    run = make_run(base, steps=(2, 4))
    trained = read_trained(run, which=None, step=None)
    assert (trained.step, trained.is_finished, trained.protocol) == (4, True, "cascade")
    assert {name: adapter.version for name, adapter in trained.adapters.items()} == {"A": 2, "B": 2}
    assert trained.progress["rollouts_generated"] == 256
    early = read_trained(run, which="B", step=2)
    assert (early.step, early.is_finished, list(early.adapters)) == (2, False, ["B"])
    assert early.adapters["B"].version == 1
    assert list(read_trained(run, which="both", step=None).adapters) == ["A", "B"]


def test_roles_are_those_of_the_method(make_run, base):
    roles = {
        method: read_trained(make_run(base, name=method, train={"method": method}), which="A", step=None).roles
        for method in ("agon", "fixed-roles", "grpo", "self-refine", "past-opponent")
    }
    assert {method: (of("A"), of("B")) for method, of in roles.items()} == {
        "agon": (("drafter", "challenger"), ("drafter", "challenger")),
        "fixed-roles": (("drafter",), ("challenger",)),
        "grpo": (("drafter",), ()),
        "self-refine": (("drafter", "challenger"), ()),
        # Their drafters are copies of theirs.
        "past-opponent": (("challenger",), ("challenger",)),
    }


@pytest.mark.parametrize("which", ["B", "both"])
def test_a_run_of_one_adapter_has_no_other(make_run, base, which):
    run = make_run(base, train={"method": "grpo"})
    assert list(read_trained(run, which=None, step=None).adapters) == ["A"]
    with pytest.raises(
        ConfigError, match=rf"--adapter {which} was asked for, but this run \(grpo\) trained one adapter, A"
    ):
        read_trained(run, which=which, step=None)


def test_a_step_that_was_not_saved_is_answered_with_those_that_were(make_run, base):
    run = make_run(base, steps=(2, 4))
    with pytest.raises(RunError, match=r"no checkpoint of step 3 \(there: 2, 4\)"):
        read_trained(run, which=None, step=3)


def test_a_damaged_checkpoint_is_passed_over_and_said_or_refused_if_asked_for(make_run, base):
    run = make_run(base, steps=(2, 4))
    weights = run / "checkpoints" / "step-000004" / "B" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    trained = read_trained(run, which="A", step=None)
    assert trained.step == 2
    assert "step-000004 is damaged" in trained.notes[0]
    with pytest.raises(RunError, match="cannot be used"):
        read_trained(run, which="A", step=4)


def test_a_checkpoint_that_does_not_name_its_base_is_refused(make_run, base, monkeypatch):
    run = make_run(base)
    path = run / "checkpoints" / "step-000002" / "state.json"
    state = json.loads(path.read_text())
    del state["base"]
    path.write_text(json.dumps(state))
    # Its hashes would tell first.
    monkeypatch.setattr("agon.export.trained.find_checkpoint", lambda run, step: (path.parent, ()))
    with pytest.raises(RunError, match="does not name its base"):
        read_trained(run, which="A", step=None)


def test_a_result_without_its_interval_is_refused(make_run, base, evaluate):
    run = make_run(base)
    evaluate(run, "fine")
    assert [row["label"] for row in read_trained(run, which="A", step=None).evaluations] == ["fine"]
    evaluate(run, "bare", interval=None)
    with pytest.raises(RunError, match=r"evaluation bare of .* has no accuracy, n or interval"):
        read_trained(run, which="A", step=None)
