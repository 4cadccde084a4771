import pytest

from agon.cli.common import Parser, default_out, one_line, printable, tell
from agon.cli.main import build_parser, run_guarded
from agon.errors import ConfigError

# What a terminal would obey: colours, a new title, the clipboard (OSC 52), C1, a carriage return that hides a line, a turned direction.
ORDERS = "\x1b[31mred \x1b]0;title\x07 \x1b]52;c;aGk=\x07 \x9b2J right\rwrong \x08\x7f \u202egold\u2066"


def test_what_a_terminal_would_obey_is_shown_and_not_sent():
    shown = printable(f"a\tb\n{ORDERS} é \U0001d465 \ud83d")
    assert shown == (
        "a\tb\n\\x1b[31mred \\x1b]0;title\\x07 \\x1b]52;c;aGk=\\x07 \\x9b2J right\\rwrong \\x08\\x7f \\u202egold\\u2066 é \U0001d465 \\ud83d"
    )


def test_a_note_is_one_line_without_secrets_and_orders(capsys):
    tell(f"GET https://me:password1@host/x\n{ORDERS}")
    told = capsys.readouterr().err
    assert told.startswith("agon: GET https://[redacted]@host/x \\x1b[31mred")
    assert told.count("\n") == 1
    assert "\x1b" not in told


def test_an_expected_failure_is_told_without_secrets(capsys):
    def fail():
        raise ConfigError("model.base 'https://me:password1@host/x' does not exist")

    assert run_guarded(fail) == 2
    assert capsys.readouterr().err == "agon: model.base 'https://[redacted]@host/x' does not exist\n"


def test_a_mistake_on_the_command_line_repeats_no_secret(capsys):
    parser = Parser(prog="agon")
    with pytest.raises(SystemExit):
        parser.parse_args(["https://me:password1@host/x"])
    told = capsys.readouterr().err
    assert "unrecognized" in told
    assert "password1" not in told


def test_an_argument_with_a_line_break_is_refused_in_one_line(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["train", "--out", "runs/a\n\x1b[31mb"])
    told = capsys.readouterr().err
    assert "--out: 'runs/a\\n\\x1b[31mb' holds a line break" in told
    assert told.count("\n") == 1
    # A right answer may have several.
    assert build_parser().parse_args(["verify", "exact", "--gold", "a\nb", "--answer", "a"]).gold == "a\nb"


def test_a_home_folder_of_nobody_is_one_line(capsys):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    assert run_guarded(fail) == 1
    assert (
        capsys.readouterr().err == "agon: a path begins with ~ and a name that nobody has here: write the folder out\n"
    )


@pytest.mark.parametrize("recipe", ["...toml", "..toml", "some/where/...toml", "/", ".."])
def test_a_recipe_whose_name_leads_elsewhere_needs_an_out(recipe):
    with pytest.raises(ConfigError, match="has no name to call a folder by: say with --out"):
        default_out(recipe)


@pytest.mark.parametrize(
    ("recipe", "name"),
    [("some/where/my.toml", "my"), ("../../x.toml", "x"), ("quickstart", "quickstart"), ("a.b", "a.b")],
)
def test_a_run_goes_into_a_folder_of_its_recipes_name(recipe, name):
    assert default_out(recipe).as_posix() == f"runs/{name}"


def test_one_line_takes_whatever_an_error_is_made_of():
    assert one_line(ValueError("a\u2028b\x1cc")) == "a b c"
