import numpy as np
import pytest
import scipy.linalg
import torch

from agon.errors import ModelError
from agon.model.divergence import compare_updates, update_distance


def dense(pair, name):
    """Every layer's update, multiplied out by numpy."""
    return [
        site.scale(name) * site.up(name).detach().double().numpy() @ site.down(name).detach().double().numpy()
        for site in pair.sites
    ]


def subspaces(matrix):
    u, sizes, v = np.linalg.svd(matrix)
    rank = int((sizes > 1e-6 * sizes[0]).sum())
    return u[:, :rank], v[:rank].T


@pytest.fixture
def trained(make_pair, randomise):
    pair = make_pair()
    randomise(pair, "A", seed=1)
    randomise(pair, "B", seed=2)
    return pair


def test_size_and_direction_are_those_of_the_dense_updates(trained):
    a, b = (np.concatenate([layer.ravel() for layer in dense(trained, name)]) for name in "AB")
    out = compare_updates(trained)
    norms = np.linalg.norm(a), np.linalg.norm(b)
    assert (out.norm_first, out.norm_second) == pytest.approx(norms)
    assert out.cosine == pytest.approx(a @ b / (norms[0] * norms[1]))
    assert out.distance == pytest.approx(np.linalg.norm(a - b) / np.mean(norms))
    assert out.distance == update_distance(trained)


def test_principal_angles_are_those_scipy_finds_in_the_dense_updates(trained):
    out = compare_updates(trained)
    for found, side in ((out.outputs, 0), (out.inputs, 1)):
        pairs = [
            (subspaces(x)[side], subspaces(y)[side]) for x, y in zip(*(dense(trained, n) for n in "AB"), strict=True)
        ]
        angles = np.degrees([scipy.linalg.subspace_angles(x, y) for x, y in pairs])
        assert (found.smallest, found.median, found.largest) == pytest.approx(
            (angles.min(), np.median(angles), angles.max()), abs=1e-5
        )
        assert found.overlap == pytest.approx(np.mean(np.cos(np.radians(angles)) ** 2))
        assert found.random_overlap == pytest.approx(np.mean([4 / len(x) for x, _ in pairs]))
        assert found.num_layers == len(pairs)


def test_unrelated_subspaces_overlap_as_much_as_is_said_of_chance(make_pair, randomise):
    outs = []
    for seed in range(12):
        pair = make_pair()
        randomise(pair, "A", seed=2 * seed)
        randomise(pair, "B", seed=2 * seed + 1)
        outs.append(compare_updates(pair).outputs)
    # Rank 4 in 32 or 56 dimensions, 14 layers, 12 pairs.
    assert np.mean([out.overlap for out in outs]) == pytest.approx(outs[0].random_overlap, rel=0.06)


def test_one_and_the_same_update_is_at_no_distance_and_no_angle(trained):
    out = compare_updates(trained, "A", "A")
    assert out.distance == pytest.approx(0.0, abs=1e-6)
    assert out.cosine == pytest.approx(1.0)
    assert out.outputs.overlap == out.inputs.overlap == pytest.approx(1.0)
    # arccos turns a rounding of 1e-16 into 1e-8 radians.
    assert out.outputs.largest < 1e-5


def test_factors_that_differ_but_give_one_update_count_as_one(trained):
    # (B M)(M^-1 A) = B A for any invertible M.
    mix = torch.randn((4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        for site in trained.sites:
            site.up("B").copy_(site.up("A").double() @ mix)
            site.down("B").copy_(torch.linalg.solve(mix, site.down("A").double()))
    out = compare_updates(trained)
    assert out.cosine == pytest.approx(1.0, abs=1e-5)
    assert out.outputs.overlap == pytest.approx(1.0, abs=1e-5)


def test_opposite_updates_are_told_from_equal_ones_by_the_cosine_alone(trained):
    with torch.no_grad():
        for site in trained.sites:
            site.up("B").copy_(-site.up("A"))
            site.down("B").copy_(site.down("A"))
    out = compare_updates(trained)
    assert (out.cosine, out.distance) == pytest.approx((-1.0, 2.0))
    assert out.outputs.overlap == pytest.approx(1.0)


def test_an_update_that_is_zero_spans_nothing(make_pair, randomise):
    pair = make_pair()  # both B-matrices are zero
    out = compare_updates(pair)
    assert out == type(out)(0.0, None, 0.0, 0.0, None, None)
    randomise(pair, "B")
    out = compare_updates(pair)
    assert (out.cosine, out.distance, out.outputs) == (None, pytest.approx(2.0), None)


def test_an_update_that_is_zero_only_as_a_product_spans_nothing(make_pair):
    # `orthogonal` starts with factors that are not zero and whose product is.
    out = compare_updates(make_pair(init="orthogonal"))
    assert out.outputs is None
    assert out.norm_first == pytest.approx(0.0, abs=1e-6)


def test_layers_that_only_one_adapter_changes_are_left_out_of_the_angles(trained):
    with torch.no_grad():
        trained.sites[0].up("A").zero_()
    assert compare_updates(trained).outputs.num_layers == len(trained.sites) - 1


def test_a_name_that_is_no_adapter_is_refused(trained):
    with pytest.raises(ModelError, match="'C' is not loaded"):
        compare_updates(trained, "A", "C")


def test_it_turns_into_plain_json(trained):
    out = compare_updates(trained).to_json()
    assert out["outputs"]["num_layers"] == len(trained.sites)
    assert isinstance(out["distance"], float)
