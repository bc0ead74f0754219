"""Secrets are masked wherever they stand, and ordinary words of a training are not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from vtune.cli.exits import as_text
from vtune.domain.experiment import Workload
from vtune.domain.secrets import MASK, is_secret_name, masked, masked_json, masked_words, secrets_in, secrets_in_words
from vtune.execution.given_secrets import given_secrets

HF = "hf_AbCdEfGhIjKlMnOpQrStUvWx"
SECRETS = [
    f"huggingface_hub.errors: token {HF} is not valid",
    "fatal: https://me:ghp_0123456789abcdefghij@github.com/me/data.git",
    "psycopg2: could not connect to postgres://me:hunter2@db:5432/runs",
    "botocore: AKIAIOSFODNN7EXAMPLE is not authorized",
    "openai: Incorrect API key provided: sk-proj-0123456789abcdefghijkl",
    "wandb: ERROR api_key not configured: 0123456789abcdef0123456789abcdef01234567",
    "wandb login 0123456789abcdef0123456789abcdef01234567",
    "curl -H 'Authorization: Bearer abc123def456'",
    "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl was refused",
    "KeyError: os.environ['X'], MY_PASSWORD=hunter2",
    'RuntimeError: {"password": "hunter 2 and more", "n": 1}',
    "train.py --api-key s3cr3t --lr 0.1",
    "train.py --db-password=s3cr3t",
    "password: s3cr3t",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
]
PLAIN = [
    "max_tokens=512, num_tokens: 4096, token_dim=64",
    "pad_token='[PAD]', eos_token: '<|endoftext|>', mask_token=mask4",
    "SyntaxError: invalid token: expected an indented block",
    "KeyError: 'token'",
    "key: image, sort_key=name2, --key-padding left, primary_key: id1",
    "tokenizer=GPT2Tokenizer author: Bob2 authors=Bob2",
    "commit 0123456789abcdef0123456789abcdef01234567 of 2026",
    "https://github.com:443/me/data.git?b=1 and s3://bucket/path@v2",
    "use_auth: True, token=None, password=${PASSWORD}, secret=$SECRET",
    "basic usage and bearer of bad news",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/images/00001.jpg'",
    "loss: 0.25, lr=1e-3, epoch: 3/10, 123.4 samples/s",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_masked_and_the_rest_stays(text: str) -> None:
    told = masked(text)
    assert MASK in told and masked(told) == told
    secrets = (
        HF, "ghp_", "hunter", "AKIA", "sk-proj", "0123456789abcdef0123456789abcdef01234567", "abc123def456", "eyJ",
        "s3cr3t", "wJalr",
    )  # fmt: skip
    assert not any(secret in told for secret in secrets)
    assert told.split()[0] == text.split()[0] or "=" in text.split()[0] or "://" in text


@pytest.mark.parametrize("text", PLAIN)
def test_words_of_a_training_stay_as_they_are(text: str) -> None:
    assert masked(text) == text


def test_a_known_value_is_masked_wherever_it_stands() -> None:
    known = secrets_in({"MY_TOKEN": "blue-horse", "DATA": "/data/blue", "N": "8", "db": {"password": "blue-horse-2"}})
    assert known == ("blue-horse-2", "blue-horse")
    assert (
        masked("ValueError: blue-horse-2 and blue-horse in /data/blue", known)
        == f"ValueError: {MASK} and {MASK} in /data/blue"
    )


def test_an_opaque_value_of_an_environment_is_known_whatever_its_name() -> None:
    env = {"SESSION": "A1b2C3d4E5f6G7h8", "MODE": "max-autotune-no-cudagraphs", "ROOT": "/mnt/data1/imagenet-2012"}
    assert secrets_in(env) == ()
    assert secrets_in(env, also_opaque=True) == ("A1b2C3d4E5f6G7h8",)


def test_the_folder_that_a_shell_notes_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("OLDPWD", str(tmp_path))
    monkeypatch.setenv("DB_PASSWORD", "blue-horse")
    told = f"{tmp_path}/train.py: blue-horse"
    assert json.loads(as_text({"said": told})) == {"said": f"{tmp_path}/train.py: {MASK}"}
    known = given_secrets(Workload(command=("python", "train.py"), cwd=tmp_path, config={"pwd": "red-horse"}))
    assert "blue-horse" in known and "red-horse" in known and str(tmp_path) not in known


def test_the_words_of_a_command_are_masked_one_by_one() -> None:
    words = ["python", "train.py", "--token", "blue horse", "--lr", "0.1", "--api-key=s3cr3t", "--max-tokens", "512"]
    assert masked_words(words) == [*words[:3], MASK, "--lr", "0.1", f"--api-key={MASK}", "--max-tokens", "512"]
    assert secrets_in_words(words) == ("blue horse", "s3cr3t")


def test_json_keeps_its_shape() -> None:
    value = {
        "command": ["t", "--token", "s3cr3t"],
        "n": 1,
        "x": None,
        "api_key": "abc",
        "deep": [{"why": "pwd=s3cr3t"}],
    }
    assert masked_json(value) == {
        "command": ["t", "--token", MASK], "n": 1, "x": None, "api_key": MASK, "deep": [{"why": f"pwd={MASK}"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "wandb.api_key", "--api-key", "apiKey", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "AUTH"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["key", "sort_key", "password_file", "tokens", "pad_token", "author", "PWD", ""])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


def test_long_words_cost_no_more_than_their_length() -> None:
    def spent_s(length: int) -> float:
        begun = time.process_time()
        for character in ("a", ".", "-", "=", ":", '"', "eyJ", "eyJ-", "sk-", "://", "token=", "wandb "):
            masked(character * length)
        return time.process_time() - begun

    # Four times the length would cost 16 times as much if each place were tried with each end.
    assert spent_s(40_000) < 8 * max(spent_s(10_000), 0.02)
