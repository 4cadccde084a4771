from agon.gym_families import FAMILIES, LEFT_OUT
from agon.records import NAMED_TASKS
from agon.tasks.catalog import catalog, catalog_json


def test_every_named_task_is_described_once():
    names = [entry.name for entry in catalog()]
    assert names == [*NAMED_TASKS, "reasoning-gym/FAMILY"]
    assert all(entry.what and entry.source and entry.license for entry in catalog())


def test_a_set_to_measure_with_has_a_test_split_alone():
    splits = {entry.name: entry.splits for entry in catalog()}
    assert splits["math500"] == splits["humaneval"] == ("test",)
    assert splits["deepmath"] == ("train", "dev", "test")


def test_json_names_every_family_with_the_reason_of_those_left_out():
    document = catalog_json()
    assert len(document["families"]) == len(FAMILIES)
    assert document["left_out"].keys() == {f"reasoning-gym/{name}" for name in LEFT_OUT}
