import json

import pytest

from agon.errors import RunError
from agon.runs import RunFolder, child_runs, create_parent, default_run, read_json, read_manifest


def begin(path):
    RunFolder.create(path, settings={}).close()


def test_a_parent_stands_for_its_runs_and_names_the_default(tmp_path):
    parent = tmp_path / "quickstart"
    create_parent(parent, children=["grpo", "agon"], default="agon")
    begin(parent / "agon")
    assert child_runs(parent) == [parent / "grpo", parent / "agon"]
    assert default_run(parent) == parent / "agon"


def test_a_run_stands_for_itself(run):
    assert child_runs(run.path) == [run.path]
    assert default_run(run.path) == run.path


def test_a_default_that_has_not_begun_is_refused_with_what_there_is(tmp_path):
    parent = tmp_path / "quickstart"
    create_parent(parent, children=["grpo", "agon"], default="agon")
    begin(parent / "grpo")
    with pytest.raises(RunError, match=r"has not begun: continue training with --resume; there is .*grpo"):
        default_run(parent)


def test_where_one_run_is_needed_a_parent_is_refused_with_its_runs(tmp_path):
    create_parent(tmp_path / "p", children=["grpo", "agon"], default="agon")
    with pytest.raises(RunError, match=r"holds several runs \(grpo, agon\): give one of them"):
        read_manifest(tmp_path / "p")


def test_a_parent_is_not_made_over_something_else(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(RunError, match=r"is not empty \(thesis\.tex\): give another --out"):
        create_parent(tmp_path, children=["a"], default="a")


def test_a_parent_that_is_there_asks_for_resume(tmp_path):
    create_parent(tmp_path / "p", children=["a"], default="a")
    with pytest.raises(RunError, match=r"is not empty \(parent\.json\): continue it with --resume"):
        create_parent(tmp_path / "p", children=["a"], default="a")


@pytest.mark.parametrize("children", [["../elsewhere"], ["/etc"], [""], "agon", None, [3], []])
def test_names_that_lead_out_of_the_parent_are_refused(tmp_path, children):
    create_parent(tmp_path / "p", children=["agon"], default="agon")
    content = read_json(tmp_path / "p" / "parent.json")
    (tmp_path / "p" / "parent.json").write_text(json.dumps({**content, "children": children}))
    with pytest.raises(RunError, match="names no children"):
        child_runs(tmp_path / "p")


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"format_version": 2}, "reads no newer one than 1: upgrade agon"),
        ({"format_version": 0}, "reads none before 1: use agon"),
        ({"format": "agon matrix"}, "says that it is 'agon matrix' and not 'agon parent'"),
    ],
)
def test_a_parent_of_another_format_is_refused_with_the_remedy(tmp_path, change, remedy):
    create_parent(tmp_path / "p", children=["agon"], default="agon")
    content = read_json(tmp_path / "p" / "parent.json")
    (tmp_path / "p" / "parent.json").write_text(json.dumps({**content, **change}))
    for reader in (child_runs, default_run):
        with pytest.raises(RunError, match=remedy):
            reader(tmp_path / "p")
