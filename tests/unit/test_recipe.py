from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agon.config import Settings
from agon.errors import ConfigError
from agon.recipe import MATRIX_TABLE, describe_settings, load_recipe, read_tables, saved_settings, settings_from

ALL_RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
RECIPES = [path for path in ALL_RECIPES if MATRIX_TABLE not in read_tables(path)]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads(path: Path):
    assert isinstance(load_recipe(path), Settings)


def test_a_matrix_is_no_recipe_of_one_run():
    with pytest.raises(ConfigError, match=r"describes a matrix of runs \(\[matrix\]\): start it with `agon ablate`"):
        settings_from({"matrix": {"seeds": [0]}})


def test_there_are_recipes():
    assert {"quickstart-grpo", "quickstart-cooperative", "quickstart-agon"} <= {path.stem for path in RECIPES}


def test_quickstart_recipes_differ_in_the_method_alone():
    trees = []
    for method in ("grpo", "cooperative", "agon"):
        tree = load_recipe(Path(__file__).parents[2] / "recipes" / f"quickstart-{method}.toml").model_dump()
        assert tree["train"].pop("method") == method
        trees.append(tree)
    assert trees[0] == trees[1] == trees[2]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"train": {"learning_rat": 1.0}}, ["train.learning_rat", "did you mean 'learning_rate'"]),
        ({"train": {"num-steps": 5}}, ["train.num-steps"]),
        ({"train": {"rank": 2}}, ["train.rank", "did you mean adapter.rank"]),
        ({"trian": {}}, ["'trian'", "did you mean 'train'"]),
        ({"learning_rate": 1e-3}, ["did you mean train.learning_rate"]),
        ({"task": {"question_field": ""}}, ["task.question_field is empty", "leave it out"]),
        ({"task": {"path": " "}}, ["task.path is empty"]),
        (
            {"task": {"difficulty_min": 5.0, "difficulty_max": 3.0}},
            ["task.difficulty_min is 5", "above task.difficulty_max (3)"],
        ),
        ({"train": 3}, ["train is 3", "[train]"]),
        ({"train": {"steps": "5"}}, ["train.steps", "'5'"]),
        ({"train": {"steps": 0}}, ["train.steps", "0"]),
        ({"train": {"learning_rate": "1e-5"}}, ["train.learning_rate"]),
        ({"train": {"mask_truncated": "yes"}}, ["train.mask_truncated"]),
        ({"train": {"group_size": 1}}, ["train.group_size is 1", "2 or more"]),
        ({"train": {"method": "agonn"}}, ["train.method", "did you mean 'agon'"]),
        (
            {"train": {"problems_per_step": 1, "group_size": 3, "minibatches": 2}},
            ["minibatches is 2", "3 rollouts", "try 1 or 3"],
        ),
        ({"rollout": {"top_p": 0.9}}, ["rollout.top_p is 0.9", "1.0"]),
        ({"rollout": {"temperature": float("nan")}}, ["rollout.temperature"]),
        ({"task": {"name": "gsm8"}}, ["task.name", "did you mean 'gsm8k'"]),
        ({"task": {"name": "custom"}}, ["task.path", "task.hub"]),
        ({"task": {"dev_share": 0.6, "test_share": 0.5}}, ["1.1", "leave a share"]),
        (
            {"task": {"name": "mbpp", "answer_style": "tags"}},
            ['task.answer_style is "tags"', "mbpp are programs", 'set it to "code"'],
        ),
        ({"task": {"name": "gsm8k", "answer_style": "code"}}, ["gsm8k are not programs", '"tags" or "boxed"']),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_in_one_line(tree, words):
    with pytest.raises(ConfigError) as caught:
        settings_from(tree, source="recipe.toml")
    message = str(caught.value)
    assert "\n" not in message
    for word in (*words, "recipe.toml"):
        assert word in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[train]\nlearning_rat = 1e-4\n", 2),
        ("# one\n\n[train]\nsteps = 3\nnum-epochs = 1\n", 5),
        ("[model]\nbase = 'x'\n[train]\nlora_r = 8\n", 4),
        ("lr = 1e-4\n", 1),
        ("[train]\nsteps = 3\n[ trian ]\nsteps = 1\n", 3),
        ("train.enable = false\n", 1),
        ("[train]\n\tlearning_rate = '1e-5'\n", 2),
        ("[train]\nsteps = 5\ngroup_size = 1\n", 3),
        ("[rollout]\ntop_p = 0.8\n", 2),
    ],
)
def test_a_mistake_in_a_recipe_is_told_with_its_line(tmp_path, text, line):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(path))}, line {line}: "):
        load_recipe(path)


def test_a_recipe_in_another_form_of_toml_is_told_without_a_line(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('train = { steps = 3, "epochs" = 1 }\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: unknown key train\.epochs"):
        load_recipe(path)


@pytest.mark.parametrize(
    "override",
    [
        *("train.learning_rat=1", "train.steps=abc", "train.steps=1e3", "train.group_size=1", "rollout.top_p=0.8"),
        *("trian.steps=3", "train.minibatches=3", "train.method=agonn"),
    ],
)
def test_a_mistake_in_an_override_is_not_blamed_on_the_recipe(tmp_path, override):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nsteps = 4\nproblems_per_step = 2\n")
    with pytest.raises(ConfigError, match=r"^--set: ") as caught:
        load_recipe(path, ["train.seed=1", override])
    assert "mine.toml" not in str(caught.value)


def test_a_mistake_in_the_recipe_is_not_blamed_on_an_override(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nsteps = 'four'\n")
    with pytest.raises(ConfigError, match=r"mine\.toml, line 2: train\.steps is 'four'"):
        load_recipe(path, ["train.seed=1"])


def test_mistakes_in_both_are_told_apart(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[train]\nsteps = 'four'\n")
    with pytest.raises(ConfigError, match=r"^--set: train\.seed is 'x'.*; .*mine\.toml, line 2: train\.steps is"):
        load_recipe(path, ["train.seed=x"])


def test_overrides_take_precedence_and_are_read_as_toml():
    settings = settings_from(
        {"train": {"steps": 5}},
        [
            "train.steps=7",
            "train.learning_rate=1",
            "train.method=grpo",
            "model.revision=none",
            'adapter.targets=["q_proj"]',
        ],
    )
    assert settings.train.steps == 7
    assert settings.train.learning_rate == 1.0
    assert settings.train.method == "grpo"
    assert settings.model.revision is None
    assert settings.adapter.targets == ("q_proj",)


def test_none_is_a_word_where_a_key_has_it_and_no_value_elsewhere():
    overrides = ["tracking.backend=none", "train.advantage=none", "task.path=none"]
    settings = settings_from({"tracking": {"backend": "wandb"}, "task": {"path": "mine.jsonl"}}, overrides)
    assert (settings.tracking.backend, settings.train.advantage, settings.task.path) == ("none", "none", None)


@pytest.mark.parametrize("override", ["steps=5", "train.steps", "train.=5", "=5"])
def test_a_malformed_override_is_refused(override):
    with pytest.raises(ConfigError, match=r"table\.key=value"):
        settings_from({}, [override])


def test_described_settings_read_back_as_the_same_settings():
    settings = settings_from({"train": {"steps": 3, "clip_low": 0.1}, "task": {"path": 'a"b\\c.jsonl'}})
    assert settings_from(tomllib.loads(describe_settings(settings))) == settings


def test_settings_survive_json():
    settings = settings_from({"adapter": {"targets": ["q_proj", "v_proj"]}})
    assert settings_from(settings.model_dump(mode="json")) == settings


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Settings().train.steps = 3  # type: ignore[misc]


@pytest.mark.parametrize("text", ["[train]\nsteps = 3\nsteps = 4", "[train\nsteps = 3", "\t[train]\nsteps ="])
def test_a_recipe_that_is_not_toml_is_named(tmp_path, text):
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"broken\.toml is not valid TOML"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[train]\nsteps = 3\nsteps = 4\nseed = 1", "line 3, column 10): 'steps'"),
        ("[train]\r\nsteps = 3\r\nsteps = 4", "end of document): 'steps'"),
        ("[train]\nsteps = 3\nsteps = [\n1,\n2]\n", "line 5, column 3): a key"),
        ("train = 1\n[train]\nsteps = 3", "line 2, column 7): '[train]'"),
    ],
)
def test_a_key_that_stands_twice_is_named(tmp_path, text, told):
    path = tmp_path / "twice.toml"
    path.write_bytes(text.encode())
    with pytest.raises(ConfigError, match=re.escape(f"{told} stands there for the second time, keep one of the two")):
        load_recipe(path)


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        load_recipe(tmp_path / "none.toml")


def test_an_empty_recipe_is_the_defaults(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("")
    assert load_recipe(path) == Settings()


@pytest.mark.parametrize("override", ["train.learning_rate=1e300", "adapter.alpha=1e300", "rollout.temperature=1e-300"])
def test_a_float_that_float32_cannot_use_is_refused(override):
    with pytest.raises(ConfigError, match="which float32 arithmetic cannot use"):
        settings_from({}, [override])


def test_a_code_task_answers_in_code_unless_told_otherwise():
    named = settings_from({"task": {"name": "mbpp"}}, [])
    own = settings_from({"task": {"name": "custom", "path": "mine.jsonl"}}, ["task.verifier=code"])
    assert [named.task.answer_style, own.task.answer_style] == ["code", "code"]
    assert settings_from({"task": {"name": "gsm8k"}}, []).task.answer_style == "tags"


HUB_TOKEN = "hf_" + "a1B2" * 9


@pytest.mark.parametrize(
    "override",
    [
        f"tracking.project={HUB_TOKEN}",
        "model.base=https://me:password1@host/model",
        f'adapter.targets=["q_proj", "{HUB_TOKEN}"]',
        "tracking.project=agon-0123456789abcdef",
    ],
)
def test_a_secret_in_a_setting_is_refused_and_not_repeated(override, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    key = override.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"{key} holds a secret .*take it out; secrets belong in the env") as caught:
        settings_from({}, [override])
    for part in (HUB_TOKEN, "password1", "0123456789abcdef"):
        assert part not in str(caught.value)


def test_a_word_that_is_somewhere_a_password_may_stand_in_a_setting(monkeypatch):
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    assert settings_from({}, ["tracking.project=postgres"]).tracking.project == "postgres"


def test_a_setting_that_lost_its_secret_asks_for_it_again():
    with pytest.raises(ConfigError, match=r"run: tracking\.project .*give it again with --set tracking\.project="):
        settings_from({"tracking": {"project": "of [redacted]"}}, source="run")


@pytest.mark.parametrize("name", ["/etc", "./x", "../x", "https://host/x", "hf://datasets/a/b", "a/b/c", "-x/y", "a b"])
def test_what_is_no_name_of_a_hub_data_set_is_refused(name):
    with pytest.raises(ConfigError, match=r"task\.hub is .*, which is no name of a Hub data set \(OWNER/NAME\)"):
        settings_from({"task": {"name": "custom", "hub": name}})


@pytest.mark.parametrize("name", ["../x:Y", ".x:Y", "x:", "x:Y()", "x y:Z", "http://host/x:Y", "x:Y:Z"])
def test_a_method_of_ones_own_is_a_module_and_a_name(name):
    with pytest.raises(ConfigError, match=r"train\.method is .*, which is no module:NAME"):
        settings_from({"train": {"method": name}})


ASKED = [("model", "trust_remote_code"), ("verifier", "unsafe_code_execution")]


@pytest.mark.parametrize(("table", "name"), ASKED)
def test_a_run_folder_cannot_ask_for_code_to_be_run(table, name):
    saved = {table: {name: True}}
    with pytest.raises(
        ConfigError, match=rf"run asks for {table}\.{name}.*add --set {table}\.{name}=true, or set AGON"
    ):
        saved_settings(saved, source="run", environ={})
    with pytest.raises(ConfigError, match="asks for"):
        saved_settings(saved, ["train.seed=1"], source="run", asked=settings_from({}), environ={})


@pytest.mark.parametrize(("table", "name"), ASKED)
def test_a_person_can(table, name):
    saved = {table: {name: True}}
    for settings in (
        saved_settings(saved, [f"{table}.{name}=true"], source="run", environ={}),
        saved_settings(saved, source="run", asked=settings_from(saved), environ={}),
        saved_settings(saved, source="run", environ={"AGON_TRUST_RUNS": "1"}),
        saved_settings(saved, source="run", tables=(), environ={}),
    ):
        assert getattr(getattr(settings, table), name) is True
    assert getattr(getattr(saved_settings(saved, [f"{table}.{name}=false"], source="run"), table), name) is False
