from __future__ import annotations

import json

import pytest
import torch

from agon.config import ModelSettings
from agon.errors import ModelError
from agon.export.base import (
    NamedBase,
    copy_model_files,
    copy_tokenizer,
    licence_of,
    name_elsewhere,
    open_base_folder,
    write_config,
    write_generation_config,
)


def opened(folder):
    return open_base_folder(ModelSettings(base=str(folder)), local_only=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "to"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("base", "revision", "asked", "expected"),
    [
        ("owner/name", None, None, NamedBase("owner/name", None, True)),
        ("owner/name", "v2", None, NamedBase("owner/name", "v2", True)),
        ("owner/name", "v2", "other/one", NamedBase("other/one", None, True)),
        ("quickstart", None, None, NamedBase("quickstart", None, False)),
        ("quickstart", None, "/models/base", NamedBase("/models/base", None, True)),
        ("/no/longer/here", None, None, NamedBase("here", None, False)),
        ("./near", None, None, NamedBase("near", None, False)),
    ],
)
def test_a_base_is_called_by_its_hub_name_or_as_asked_and_never_by_a_path_of_this_machine(
    base, revision, asked, expected
):
    assert name_elsewhere(ModelSettings(base=base, revision=revision), asked) == expected


def test_a_folder_of_the_hubs_cache_is_called_by_its_hub_name(tmp_path):
    path = tmp_path / "hub" / "models--owner--some-name" / "snapshots" / "0123abc"
    path.mkdir(parents=True)
    assert name_elsewhere(ModelSettings(base=str(path)), None) == NamedBase("owner/some-name", "0123abc", True)


def test_files_that_loading_needs_are_copied_and_no_others(make_base, target):
    folder = make_base()
    for name in (
        *(
            "LICENSE",
            "NOTICE.txt",
            "code.py",
            "merges.txt",
            "README.md",
            "model.safetensors.index.json",
        ),
        *("optimizer.pt", "training_args.bin", ".env", "agon_export.json", "notes.log"),
    ):
        (folder / name).write_text(f"{name}\n")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool.jinja").write_text("x")
    copy_model_files(opened(folder), target)
    assert names(target) == [
        *(
            "LICENSE",
            "NOTICE.txt",
            "README.base.md",
            "additional_chat_templates",
            "code.py",
            "merges.txt",
            "tokenizer.json",
        ),
        "tokenizer_config.json",
    ]
    assert (target / "README.base.md").read_text() == "README.md\n"


def test_an_adapter_gets_the_tokenizer_and_the_licence(make_base, target):
    folder = make_base()
    for name in ("LICENSE.md", "chat_template.jinja", "code.py"):
        (folder / name).write_text(name)
    copy_tokenizer(opened(folder), target)
    assert names(target) == ["LICENSE.md", "chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]


def test_a_configuration_changes_in_its_number_format_alone(make_base, target):
    folder = make_base(dtype=torch.bfloat16)
    tree = json.loads((folder / "config.json").read_text())
    tree |= {"torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16", "n": 1}, "odd": {"dtype": "int8"}}
    (folder / "config.json").write_text(json.dumps(tree))
    base = opened(folder)
    write_config(base, target, dtype=None, unties_head=False)
    assert json.loads((target / "config.json").read_text()) == tree
    write_config(base, target, dtype=torch.float16, unties_head=True)
    assert json.loads((target / "config.json").read_text()) == {
        **tree,
        "dtype": "float16",
        "torch_dtype": "float16",
        "tie_word_embeddings": False,
        "text_config": {"dtype": "float16", "n": 1},
        "odd": {"dtype": "int8"},
    }


@pytest.mark.parametrize(("said", "is_kept"), [("owner/name", True), ("/home/someone/base", False)])
def test_a_configuration_names_no_folder_of_a_machine(make_base, target, said, is_kept):
    folder = make_base()
    tree = json.loads((folder / "config.json").read_text()) | {"_name_or_path": said}
    (folder / "config.json").write_text(json.dumps(tree))
    write_config(opened(folder), target, dtype=None, unties_head=False)
    assert (json.loads((target / "config.json").read_text()).get("_name_or_path") == said) == is_kept


def test_a_configuration_without_a_number_format_gets_one(make_base, target):
    folder = make_base()
    tree = json.loads((folder / "config.json").read_text())
    del tree["dtype"]
    (folder / "config.json").write_text(json.dumps(tree))
    write_config(opened(folder), target, dtype=torch.float16, unties_head=False)
    assert json.loads((target / "config.json").read_text()) == {**tree, "dtype": "float16"}


def test_a_text_ends_where_it_ended_in_training(make_base, target):
    # The configuration's 2; the tokenizer's own end 40 and its turn end 41.
    folder = make_base()
    assert write_generation_config(opened(folder), target) == (40, 41)
    own = json.loads((folder / "generation_config.json").read_text())
    assert json.loads((target / "generation_config.json").read_text()) == {**own, "eos_token_id": [2, 40, 41]}


def test_a_generation_configuration_that_lacks_nothing_is_copied(make_base, target):
    folder = make_base()
    path = folder / "generation_config.json"
    path.write_text('{"eos_token_id": [41, 40, 2],  "top_k": 20}')
    assert write_generation_config(opened(folder), target) == ()
    assert (target / path.name).read_text() == path.read_text()


def test_without_a_generation_configuration_one_is_made_where_it_is_needed(make_base, target):
    folder = make_base()
    (folder / "generation_config.json").unlink()
    assert write_generation_config(opened(folder), target) == (40, 41)
    assert json.loads((target / "generation_config.json").read_text()) == {"eos_token_id": [2, 40, 41]}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"README.md": "# A model\n\nlicense: none of this"}, None),
        ({"README.md": "---\nlanguage: en\nlicense: 'apache-2.0'\n---\n# A"}, "apache-2.0"),
        ({"README.md": "---\nlanguage: en\n---\n# A", "LICENSE.txt": "x"}, "LICENSE.txt"),
    ],
)
def test_a_licence_is_what_the_folder_says(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert licence_of(tmp_path) == expected


def test_a_base_that_is_not_here_is_not_fetched():
    with pytest.raises(ModelError, match="owner/name"):
        open_base_folder(ModelSettings(base="owner/name"), local_only=True)
