"""Files that somebody else may have written: bounded, whatever stands in them and whatever they are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from vtune.foreign.bounds import DEEPEST, MOST_BITS, BadText
from vtune.foreign.json_text import parse_json
from vtune.foreign.read import read_bytes, read_json, read_text
from vtune.foreign.toml_text import parse_toml
from vtune.foreign.yaml_text import load_yaml, load_yaml_quickly

MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))
LISTS = MERGES.replace("{x: 1}", "[x]").replace("{<<: [", "[").replace("]}", "]")
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300))


@pytest.mark.parametrize(
    "kind",
    [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/dev/tty0")],
    ids=["a FIFO", "a folder", "a device that never ends", "another device"],
)
def test_only_a_regular_file_is_read(tmp_path: Path, kind: Callable[[Path], object]) -> None:
    kind(tmp_path / "file")
    with pytest.raises((BadText, OSError)):
        read_bytes(tmp_path / "file")


def test_a_file_beyond_its_bound_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 2049)
    with pytest.raises(BadText):
        read_bytes(tmp_path / "file", most=2048)
    assert len(read_bytes(tmp_path / "file", most=2049)) == 2049


def test_a_byte_that_is_no_utf8_is_named_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("é\nab".encode() + b"\xff")
    with pytest.raises(BadText) as caught:
        read_text(tmp_path / "file")
    assert (caught.value.line, caught.value.column) == (2, 3)


@pytest.mark.parametrize("read", [load_yaml, load_yaml_quickly])
@pytest.mark.parametrize(
    "text",
    [
        MERGES, LISTS, CHAIN, "a: &a [*a]", "a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), 'a: "\\ud800"',
        "a: " + "1:" * 20_000 + "1", "a: " + "9" * 5000, "a: " + "1:" * 20_000 + "1.5",
 "x" * 3_000_000, "[" * 1_000_000,
    ],
    ids=["merges", "lists", "chain", "itself", "deep", "surrogate", "base 60", "digits", "float", "long", "very deep"],
)  # fmt: skip
def test_yaml_that_would_take_too_much_is_refused_before_anything_is_built(
    read: Callable[[str], Any], text: str
) -> None:
    # The C library has an error of its own for half a character.
    with pytest.raises((BadText, yaml.YAMLError)):
        read(text)


def test_a_text_of_too_many_values_is_left_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtune.foreign.yaml_text.MOST_NODES", 100)
    assert len(load_yaml("- 1\n" * 99)) == 99
    with pytest.raises(BadText):
        load_yaml("- 1\n" * 100)


@pytest.mark.parametrize("read", [load_yaml, load_yaml_quickly])
def test_plain_yaml_with_anchors_and_merges_reads_as_pyyaml_has_it(read: Callable[[str], Any]) -> None:
    text = "base: &b {lr: 0.1, n: 0x10}\none: {<<: *b, lr: 0.2}\ntwo: [*b, 1:30, é]\n"
    assert read(text) == {
        "base": {"lr": 0.1, "n": 16},
        "one": {"lr": 0.2, "n": 16},
        "two": [{"lr": 0.1, "n": 16}, 90, "é"],
    }


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 50_000) + " = 1", "[" + ".".join("a" * 50_000) + "]", "a = " + "[" * 3000, "a = " + "9" * 5000,
        "a = 0x" + "f" * 5000, 'a = "x', "a" * 5_000_000,
    ],
    ids=["key", "table", "deep", "digits", "hex", "open", "long"],
)  # fmt: skip
def test_toml_that_would_take_too_much_is_refused(text: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_toml(text)
    assert caught.value.hint


def test_dotted_keys_and_values_with_many_dots_are_toml_as_ever() -> None:
    address = ".".join("ab" * 30)
    assert parse_toml(f'a.b."c d" = 1\nx = "{address}"') == {"a": {"b": {"c d": 1}}, "x": address}


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, '{"a": ' + "9" * 5000 + "}", '["\\ud800"]', "[" * 70 + "]" * 70 + "x", "", "{"],
)
def test_json_that_cannot_be_worked_with_is_refused(text: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_json(text)
    assert caught.value.hint


def test_deep_json_is_refused_where_python_itself_would_still_read_it() -> None:
    with pytest.raises(BadText):
        parse_json("[" * 210 + "]" * 210)


def test_integers_are_read_as_far_as_a_float_goes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({"a": 2**MOST_BITS - 1, "b": "\U0001f389"}))
    assert read_json(tmp_path / "file") == {"a": 2**MOST_BITS - 1, "b": "\U0001f389"}
    with pytest.raises(BadText):
        parse_json(str(2 ** (MOST_BITS + 2)))


def test_an_error_of_a_hook_is_told_as_it_is() -> None:
    def refuse(pairs: list[tuple[str, Any]]) -> Any:
        raise ValueError('the key "point" stands there twice')

    with pytest.raises(BadText) as caught:
        parse_json('{"point": 1, "point": 2}', object_pairs_hook=refuse)
    assert "digits" not in caught.value.message and "point" in caught.value.message
    with pytest.raises(BadText) as caught:
        parse_json('{"point": ' + "9" * 5000 + "}")
    assert "digits" in caught.value.message
