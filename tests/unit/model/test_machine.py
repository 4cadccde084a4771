import torch

from agon.model.machine import machine_of


def test_a_cpu_is_told_by_its_instructions_and_by_the_threads_that_share_a_sum():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        found = machine_of(torch.device("cpu"))
    finally:
        torch.set_num_threads(before)
    assert found == {"device": "cpu", "cpu": torch.backends.cpu.get_cpu_capability(), "threads": "3"}
