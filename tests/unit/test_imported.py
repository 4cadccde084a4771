import pytest

from agon.errors import ConfigError
from agon.imported import imported, imported_function, is_importable_name


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return what makes a module of a text, and its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    return write


def test_a_function_of_a_module_is_found(module):
    name = module("imported_mine", "def double(x):\n    return 2 * x\n")
    assert imported_function("task.name", f"{name}:double")(21) == 42


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def double(x)\n", "SyntaxError.*mend the module"),
        ("1 / 0\n", "ZeroDivisionError: division by zero.*mend the module"),
        ("", "has no attribute 'double'"),
        (
            "import no_such_module_of_mine\n",
            "No module named 'no_such_module_of_mine'.*install what imported_.* imports",
        ),
        ("raise SystemExit(0)\n", r"it called sys.exit\(0\).*mend the module"),
    ],
)
def test_a_module_that_fails_is_told_in_one_line(module, text, words):
    name = module(f"imported_{abs(hash(text))}", text)
    with pytest.raises(ConfigError, match=f"task.verifier is '{name}:double'.*{words}") as told:
        imported("task.verifier", f"{name}:double")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["no_such_module_of_mine", "no_such_module_of_mine.inner"])
def test_a_module_that_is_not_found_has_a_folder(name):
    with pytest.raises(ConfigError, match=r"No module named 'no_such_module_of_mine'.*on PYTHONPATH"):
        imported("task.verifier", f"{name}:double")


def test_what_cannot_be_called_is_no_function(module):
    name = module("imported_number", "double = 2\n")
    with pytest.raises(ConfigError, match="is int and cannot be called"):
        imported_function("task.name", f"{name}:double")


@pytest.mark.parametrize("name", ["mine", "mine:", ":rows", "my file:rows", "mine:rows:more", "mine:0", "../mine:rows"])
def test_other_names_are_not_imported(name):
    assert not is_importable_name(name)
