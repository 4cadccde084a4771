import time

import pytest

from agon.secrecy import REDACTED, holds_secret, known_secrets, redact, redact_text

HUB_TOKEN = "hf_" + "a1B2" * 8


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "hf_token", "TOKEN", "wandb.api-key", "password", "aws_secret_access_key", "apikey"),
        *("apiKey", "accessToken", "PGPASSWORD", "client_secret"),
    ],
)
def test_a_value_under_a_secret_name_is_replaced(name):
    assert redact({"tracking": {name: "short"}}, {}) == {"tracking": {name: REDACTED}}


@pytest.mark.parametrize(
    "name",
    [
        *("max_draft_tokens", "tokens_per_microbatch", "question_field", "eos_token_id", "key", "monkey"),
        *("eos_token", "pad_token", "maxTokens"),
    ],
)
def test_other_names_are_left_alone(name):
    assert redact({name: "value"}, {}) == {name: "value"}


def test_a_secret_name_without_a_text_is_left_alone():
    assert redact({"token": None, "password": "", "secret": True}, {}) == {
        "token": None,
        "password": "",
        "secret": True,
    }


def test_every_text_packed_under_a_secret_name_is_replaced():
    tree = {"credentials": {"user": "me", "more": ["a", 3]}, "api_keys": ["one", "two"]}
    assert redact(tree, {}) == {
        "credentials": {"user": REDACTED, "more": [REDACTED, 3]},
        "api_keys": [REDACTED, REDACTED],
    }


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (HUB_TOKEN, REDACTED),
        ("sk-abcdefghijklmnopqrstuvwx", REDACTED),
        ("sk-proj-AbCdEf1234567890AbCdEf_12", REDACTED),
        ("https://me:pw@host/x", f"https://{REDACTED}@host/x"),
        ("redis://:p@ss@host:1/0", f"redis://{REDACTED}@host:1/0"),
        ("git clone https://0123456789abcdef0123@host/x", f"git clone https://{REDACTED}@host/x"),
        ("Authorization: Bearer abcdefgh12345", f"Authorization: Bearer {REDACTED}"),
        ("{'Authorization': 'Basic dXNlcjpwdw=='}", f"{{'Authorization': 'Basic {REDACTED}'}}"),
        ("headers={'x-api-key': 'abc123'}", f"headers={{'x-api-key': '{REDACTED}'}}"),
        ("https://h/x?token=abc&y=1", f"https://h/x?token={REDACTED}&y=1"),
        ("https://h/x?y=1&X-Amz-Signature=abc", f"https://h/x?y=1&X-Amz-Signature={REDACTED}"),
        ("WANDB_API_KEY=abcd agon train", f"WANDB_API_KEY={REDACTED} agon train"),
        ("password=hunter2, user=me", f"password={REDACTED}, user=me"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n", f"{REDACTED}\n"),
    ],
)
def test_a_text_with_the_shape_of_a_secret_is_replaced_wherever_it_stands(text, clean):
    assert redact({"command": ["train", text]}, {}) == {"command": ["train", clean]}


@pytest.mark.parametrize(
    "text",
    [
        "hf_transfer",
        "runs/hf_datasetsdownloads1",
        "sk-learn-experiments-2024",
        "0123456789abcdef0123456789abcdef01234567",  # a git commit
        "ssh://git@host/x",
        "basic arithmetic, bearer of news",
        "the token: 'x = 5'",
        "a password has 8 letters",
    ],
)
def test_a_text_that_only_resembles_one_is_left_alone(text):
    assert redact_text(text, {}) == text


def test_what_a_secret_environment_variable_holds_is_replaced_wherever_it_stands():
    environ = {"WANDB_API_KEY": "0123456789abcdef", "HOME": "/home/anyone", "HF_TOKEN": "x"}
    tree = {"note": "key=0123456789abcdef at /home/anyone x", "0123456789abcdef": 1}
    # One letter is no secret: replacing it would destroy every text.
    assert redact(tree, environ) == {"note": f"key={REDACTED} at /home/anyone x", REDACTED: 1}


def test_the_keys_of_servers_and_endpoints_are_known_each_by_itself():
    environ = {"AGON_API_KEY": "key-1-of-two,key-2-of-two", "AGON_DRAFTER_KEY": "drafter1", "MYSQL_PWD": "s3cretpw"}
    assert redact_text("key-2-of-two drafter1 s3cretpw", environ) == " ".join([REDACTED] * 3)


def test_words_and_paths_in_the_environment_are_no_secrets():
    environ = {
        "POSTGRES_PASSWORD": "postgres",
        "PWD": "/srv/work/agon1",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key-file-1.json",
    }
    assert known_secrets(environ) == []


def test_what_is_certainly_a_secret_is_told_from_what_only_may_be_one():
    assert holds_secret(f"runs/{HUB_TOKEN}", {})
    assert holds_secret("https://me:pw@host/data.jsonl", {})
    assert holds_secret("of 0123456789abcdef", {"A_TOKEN": "0123456789abcdef"})
    assert not holds_secret("password=hunter2", {})
    assert not holds_secret("data/train.jsonl", {"A_TOKEN": "0123456789abcdef"})


@pytest.mark.parametrize(
    "text", ["://a:" + "b" * 50_000, "sk-" * 20_000, "eyJ-" * 20_000, "password=  " * 10_000, "a_" * 30_000 + "token"]
)
def test_a_hostile_text_takes_no_more_than_its_length(text):
    began = time.process_time()
    redact_text(text, {})
    # Linear: a few hundredths of a second. Quadratic: minutes.
    assert time.process_time() - began < 3
