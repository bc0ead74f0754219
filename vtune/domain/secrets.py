"""Which words are secrets, and the same text without them: the one place that knows.

By their name (`HF_TOKEN=…`, `--api-key …`, `password: …`), by their shape (`ghp_…`, a JWT, `://user:…@`), or because
the training was given them. A wrong guess costs a word of a message: numbers, switches and special tokens stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

MASK = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAMES = frozenset(
    ("token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "auth", "bearer",
     "authorization", "apikey")
)  # fmt: skip
# `sort_key` and `--key` are no secrets; `api_key` is.
_KEYS = frozenset(
    ("api", "access", "secret", "private", "auth", "encryption", "account", "storage", "license", "signing")
)
# Of a vocabulary.
_NO_SECRET_TOKENS = frozenset(
    ("pad", "eos", "bos", "unk", "mask", "cls", "sep", "special", "next", "prompt", "image", "start", "end", "class")
)
# The shell's working folder: as a secret it would mask each path below it.
_NO_SECRETS = frozenset(("PWD", "OLDPWD"))
_SWITCHES = frozenset(("true", "false", "none", "null", "yes", "no", "on", "off", "auto"))
# Every shell names its folders so; a database's `PWD` is no path.
_FOLDERS = frozenset(("PWD", "OLDPWD"))
# A placeholder or a special token.
_NO_VALUE = ("<", "[", "{", "$", "%", MASK)
_VALUE = r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;&()\[\]{}]+"
_PAIR = re.compile(rf"(?<![\w.-])(?P<name>[\w.-]+)(?P<between>[\"']?\s*(?P<sign>[=:])\s*)(?P<value>{_VALUE})")
_FLAG = re.compile(rf"(?<![\w-])(?P<name>--?[A-Za-z][\w-]*)(?P<between>\s+)(?P<value>(?!-)(?:{_VALUE}))")
_IN_ADDRESS = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")
_AFTER_SCHEME = re.compile(r"\b(bearer|basic)(\s+)(?=\S*\d)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
# The bounds hold since each place of a long run is tried: a key of `sk-` has up to 200 characters, and the head of a
# JWT far less than 1024.
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-(?=[\w-]{0,200}\d)[\w-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeprs]-[\w-]{10,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,1024}\.eyJ[\w-]{8,}(?:\.[\w-]*)?)"
)
# 40 hexadecimal digits are a commit as well.
_WANDB = re.compile(r"(wandb\W.{0,80}?)\b[0-9a-f]{40}\b", re.IGNORECASE)
# A shorter one would be found in words that have nothing to do with it.
_LEAST_KNOWN = 6
_OPAQUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+=.~-]{16,}")


def masked(text: str, known: Iterable[str] = ()) -> str:
    """`known`: values that are secrets wherever they stand, see `secrets_in`."""
    for secret in known:
        text = text.replace(secret, MASK)
    text = _SHAPES.sub(MASK, _WANDB.sub(rf"\1{MASK}", text))
    text = _AFTER_SCHEME.sub(rf"\1\2{MASK}", _IN_ADDRESS.sub(rf"\1{MASK}", text))
    return _FLAG.sub(_masked_flag, _PAIR.sub(_masked_pair, text))


def masked_words(words: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Of a command: a flag's value is a word of its own."""
    known, found, flag = tuple(known), list[str](), ""
    for word in words:
        is_value = _is_flag(flag) and is_secret_name(flag) and not word.startswith("-")
        found.append(MASK if is_value and _can_be_secret(word) else masked(word, known))
        flag = word
    return found


def masked_json(value: Any, known: Iterable[str] = ()) -> Any:
    """Plain JSON types, with the texts in them masked; the names of their fields stay."""
    known = tuple(known)
    if isinstance(value, str):
        return masked(value, known)
    if isinstance(value, Mapping):
        return {
            name: MASK
            if isinstance(item, str) and is_secret_name(str(name)) and _can_be_secret(item)
            else masked_json(item, known)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return masked_words(value, known)
        return [masked_json(item, known) for item in value]
    return value


def secrets_in(named: Mapping[str, Any], *, also_opaque: bool = False) -> tuple[str, ...]:
    """Values of an environment or a config that are secrets, the longest first. `also_opaque`: also those that look
    random, whatever their name."""
    found = {
        value
        for name, value in _leaves(named)
        if len(value) >= _LEAST_KNOWN
        and not (name in _FOLDERS and value.startswith("/"))
        and ((is_secret_name(name) and _can_be_secret(value)) or (also_opaque and _OPAQUE.fullmatch(value)))
    }
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def secrets_in_words(words: Sequence[str]) -> tuple[str, ...]:
    """The same of a command: `--token VALUE` and `--token=VALUE`."""
    named: dict[str, str] = {}
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals:
            named[f"{number}.{name}"] = value
        elif _is_flag(word) and number + 1 < len(words):
            named[f"{number}.{name}"] = words[number + 1]
    return secrets_in(named)


def is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or name in _NO_SECRETS:
        return False
    *before, last = words
    if last == "key":
        return bool(before) and before[-1] in _KEYS
    return last in _NAMES and not (last == "token" and before and before[-1] in _NO_SECRET_TOKENS)


def _masked_pair(found: re.Match[str]) -> str:
    value = found["value"]
    # "invalid token: expected a number" is prose.
    is_prose = found["sign"] == ":" and value.isalpha()
    return found[0] if is_prose or not is_secret_name(found["name"]) else _without_value(found)


def _masked_flag(found: re.Match[str]) -> str:
    return _without_value(found) if is_secret_name(found["name"]) else found[0]


def _without_value(found: re.Match[str]) -> str:
    value = found["value"]
    quote = value[0] if value[0] in "\"'" else ""
    if not _can_be_secret(value.strip("\"'")):
        return found[0]
    return f"{found['name']}{found['between']}{quote}{MASK}{quote}"


def _can_be_secret(value: str) -> bool:
    if not value or value.lower() in _SWITCHES or value.startswith(_NO_VALUE):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _is_flag(word: str) -> bool:
    return word.startswith("-") and "=" not in word


def _leaves(named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in named.items():
        if isinstance(value, str):
            yield str(name), value
        elif isinstance(value, Mapping):
            yield from _leaves(value)
        elif isinstance(value, list | tuple):
            yield from _leaves({f"{name}.{number}": item for number, item in enumerate(value)})
