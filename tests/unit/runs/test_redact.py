import pytest

from agon.runs import redact
from agon.runs.redact import REDACTED


@pytest.mark.parametrize(
    "name", ["api_key", "hf_token", "TOKEN", "wandb.api-key", "password", "aws_secret_access_key", "apikey"]
)
def test_a_value_under_a_secret_name_is_replaced(name):
    assert redact({"tracking": {name: "short"}}, {}) == {"tracking": {name: REDACTED}}


@pytest.mark.parametrize(
    "name", ["max_draft_tokens", "tokens_per_microbatch", "question_field", "eos_token_id", "key", "monkey"]
)
def test_other_names_are_left_alone(name):
    assert redact({name: "value"}, {}) == {name: "value"}


def test_a_secret_name_without_a_text_is_left_alone():
    assert redact({"token": None, "password": "", "secret": True}, {}) == {
        "token": None,
        "password": "",
        "secret": True,
    }


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("hf_" + "a1B2" * 8, REDACTED),
        ("https://me:pw@host/x", f"https://{REDACTED}@host/x"),
        ("Authorization: Bearer abcdefgh12345", f"Authorization: Bearer {REDACTED}"),
        ("https://h/x?token=abc&y=1", f"https://h/x?token={REDACTED}&y=1"),
        ("hf_transfer", "hf_transfer"),
        ("0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),  # a git commit
    ],
)
def test_a_text_with_the_shape_of_a_secret_is_replaced_wherever_it_stands(text, clean):
    assert redact({"command": ["train", text]}, {}) == {"command": ["train", clean]}


def test_what_a_secret_environment_variable_holds_is_replaced_wherever_it_stands():
    environ = {"WANDB_API_KEY": "0123456789abcdef", "HOME": "/home/anyone", "HF_TOKEN": "x"}
    tree = {"note": "key=0123456789abcdef at /home/anyone x"}
    # One letter is no secret: replacing it would destroy every text.
    assert redact(tree, environ) == {"note": f"key={REDACTED} at /home/anyone x"}
