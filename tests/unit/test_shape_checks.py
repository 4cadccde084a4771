"""What tests/conftest.py puts around functions: without it a wrong axis would pass unseen."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from agon.learner.logprobs import Head
from agon.model.lora import _MergedLinear
from agon.rollout.rows import Rows
from agon.rollout.sampling import Mix, sample_tokens


def _rollouts(num_uniforms):
    mix = Mix(has_temperature=True, has_greedy=False, has_nucleus=False)
    return sample_tokens(torch.zeros(2, 5), torch.zeros(num_uniforms), torch.ones(2), torch.ones(2), mix)


def _head(num_biases):
    return Head(weight=torch.zeros(3, 2), bias=torch.zeros(num_biases), softcap=None)


def _layer(num_ups):
    rows, down, up, weight = torch.ones(1, 2), torch.ones(1, 2), torch.ones(num_ups, 1), torch.ones(3, 2)
    return _MergedLinear.apply(rows, down, up, 1.0, weight, None)


@pytest.mark.parametrize(("call", "fitting"), [(_rollouts, 2), (_head, 3), (_layer, 3)])
def test_a_wrong_axis_is_refused_in_every_package_of_tensors(call, fitting):
    call(fitting)
    with pytest.raises(TypeCheckError):
        call(fitting + 1)


def test_a_function_without_tensors_is_left_as_it_is():
    assert not hasattr(Rows.__len__, "__wrapped__")
