"""A config edited in place: every byte but the value's as it was, or refused with the reason."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vtune.config.edit import edited
from vtune.config.edit_problem import CannotEdit

W = ("training", "workers")
IN_PLACE: list[tuple[str, str, dict[tuple[str, ...], Any], str]] = [
    ("a comment beside it", "training:\n  workers: 1   # slow\n", {W: 4}, "training:\n  workers: 4   # slow\n"),
    ("four spaces", "# top\ntraining:\n    workers: 1\n    lr: 1e-3\n", {W: 4},
     "# top\ntraining:\n    workers: 4\n    lr: 1e-3\n"),
    ("CRLF", "training:\r\n  workers: 1\r\n  x: 2\r\n", {W: 4}, "training:\r\n  workers: 4\r\n  x: 2\r\n"),
    ("a byte order mark", "\ufefftraining:\n  workers: 1\n", {W: 4}, "\ufefftraining:\n  workers: 4\n"),
    ("no final newline", "training:\n  workers: 1", {W: 4}, "training:\n  workers: 4"),
    ("tabs in a comment", "training:\n  workers: 1 #\ttab\t\n", {W: 4}, "training:\n  workers: 4 #\ttab\t\n"),
    ("unicode", "naïve: ü🙂\ntraining:\n  workers: 1 # größer 🙂\n", {W: 12},
     "naïve: ü🙂\ntraining:\n  workers: 12 # größer 🙂\n"),
    ("flow style", "training: {workers: 1, lr: 0.1}  # x\n", {W: 4}, "training: {workers: 4, lr: 0.1}  # x\n"),
    ("a document start", "%YAML 1.1\n---\ntraining:\n  workers: 1\n...\n", {W: 4},
     "%YAML 1.1\n---\ntraining:\n  workers: 4\n...\n"),
    ("an empty value", "training:\n  workers:   # torch's\n  x: 1\n", {W: 4},
     "training:\n  workers: 4   # torch's\n  x: 1\n"),
    ("a null", "training:\n  workers: ~\n", {W: 4}, "training:\n  workers: 4\n"),
    ("yes", "training:\n  pin_memory: no\n", {("training", "pin_memory"): True}, "training:\n  pin_memory: yes\n"),
    ("True", "training:\n  pin_memory: False # big\n", {("training", "pin_memory"): True},
     "training:\n  pin_memory: True # big\n"),
    ("ON", "training: {pin_memory: OFF}\n", {("training", "pin_memory"): True}, "training: {pin_memory: ON}\n"),
    ("single quotes", "p: 'fp32'\n", {("p",): "bf16"}, "p: 'bf16'\n"),
    ("double quotes", 'p: "fp32" # "x"\n', {("p",): "bf16"}, 'p: "bf16" # "x"\n'),
    ("a quoted key", 'training:\n  "workers": 1\n', {W: 4}, 'training:\n  "workers": 4\n'),
    ("a key with a dot", "training.workers: 1\n", {("training.workers",): 4}, "training.workers: 4\n"),
    ("an anchor that nobody uses", "training:\n  workers: &w 1 # w\n", {W: 4}, "training:\n  workers: &w 4 # w\n"),
    ("merged and overridden", "b: &b {workers: 1, y: 2}\ntraining:\n  <<: *b\n  workers: 3\n", {W: 4},
     "b: &b {workers: 1, y: 2}\ntraining:\n  <<: *b\n  workers: 4\n"),
    ("only merged: a key of its own", "b: &b {workers: 1}\ntraining:\n  <<: *b\n  x: 1 # x\nz: 0\n", {W: 4},
     "b: &b {workers: 1}\ntraining:\n  <<: *b\n  x: 1 # x\n  workers: 4\nz: 0\n"),
    ("others interpolate it", "training:\n  workers: 1\nval: ${training.workers}\n", {W: 4},
     "training:\n  workers: 4\nval: ${training.workers}\n"),
    ("a flow list of the same length", "data:\n  patch: [ 96,  96, 96 ]  # z y x\n", {("data", "patch"): (48, 96, 96)},
     "data:\n  patch: [ 48,  96, 96 ]  # z y x\n"),
    ("a flow list of another length", "f: [32, 64] # f\n", {("f",): (16, 32, 64)}, "f: [16, 32, 64] # f\n"),
    ("a block list", "f:\n  - 32 # a\n  - 64\nx: 1\n", {("f",): (16, 64)}, "f:\n  - 16 # a\n  - 64\nx: 1\n"),
    ("an absent key beside its siblings", "training:\n  # loader\n  workers: 1 # w\n\n  opt:\n    lr: 1\n# end\n",
     {("training", "prefetch_factor"): 4},
     "training:\n  # loader\n  workers: 1 # w\n  prefetch_factor: 4\n\n  opt:\n    lr: 1\n# end\n"),
    ("an absent key, CRLF and no last newline", "training:\r\n  workers: 1", {("training", "p"): 4},
     "training:\r\n  workers: 1\r\n  p: 4"),
    ("an absent key in flow", "training: {workers: 1}\n", {("training", "p"): True},
     "training: {workers: 1, p: true}\n"),
    ("an absent key in nothing", "training: {}\nx: 1\n", {("training", "p"): 2}, "training: {p: 2}\nx: 1\n"),
    ("an absent key below an empty one", "training:\nx:\n    y: 1\n", {("training", "p"): 2},
     "training:\n    p: 2\nx:\n    y: 1\n"),
    ("absent with its parent", "x: 1\n", {("training", "p"): 2}, "x: 1\ntraining:\n  p: 2\n"),
    ("two absent keys", "training:\n  workers: 1\n", {("training", "a"): 1, ("training", "b"): 2},
     "training:\n  workers: 1\n  a: 1\n  b: 2\n"),
    ("absent before nested parts only", "training:\n  opt:\n    lr: 1\n", {("training", "p"): 2},
     "training:\n  p: 2\n  opt:\n    lr: 1\n"),
    ("several at once", "a: 1\nb: {c: 2, d: 3} # x\ne: 'z'\n", {("a",): 10, ("b", "d"): 30, ("e",): "q"},
     "a: 10\nb: {c: 2, d: 30} # x\ne: 'q'\n"),
    ("a duplicate key elsewhere", "x: 1\nx: 2\ntraining: {workers: 1}\n", {W: 4},
     "x: 1\nx: 2\ntraining: {workers: 4}\n"),
    ("a tag that stays", "training:\n  workers: !!int 1\n", {W: 4}, "training:\n  workers: !!int 4\n"),
    ("a text block around it", "note: |\n  workers: 1\n   # no comment\ntraining:\n  workers: 1\n", {W: 4},
     "note: |\n  workers: 1\n   # no comment\ntraining:\n  workers: 4\n"),
]  # fmt: skip
OTHER_FORMATS: list[tuple[str, str, str, dict[tuple[str, ...], Any], str]] = [
    ("json", ".json", '{\n\t"training": {"workers":1 , "s": "a\\"b"}\n}\n', {W: 4},
     '{\n\t"training": {"workers":4 , "s": "a\\"b"}\n}\n'),
    ("json, CRLF, no end", ".json", '{"training":\r\n {"workers": [1,{"workers": 2}]}}',
     {("training", "workers"): 4}, '{"training":\r\n {"workers": 4}}'),
    ("json, absent, on lines", ".json", '{\n  "training": {\n    "workers": 1\n  }\n}',
     {("training", "p"): 2, ("training", "q"): True},
     '{\n  "training": {\n    "workers": 1,\n    "p": 2,\n    "q": true\n  }\n}'),
    ("json, absent, in a line", ".json", '{"training": {"workers": 1e0}}', {("training", "p"): None},
     '{"training": {"workers": 1e0, "p": null}}'),
    ("json, absent, in nothing", ".json", '{"training": { }}', {("training", "p"): "ü"}, '{"training": {"p": "ü"}}'),
    ("json, names that look alike", ".json", '{"x": "\\"workers\\": 1", "training": {"w\\u006frkers": 1}}', {W: 4},
     '{"x": "\\"workers\\": 1", "training": {"w\\u006frkers": 4}}'),
    ("toml", ".toml", "# top\n[training]\nworkers = 1   # w\nlr = 1e-3\n", {W: 4},
     "# top\n[training]\nworkers = 4   # w\nlr = 1e-3\n"),
    ("toml, CRLF", ".toml", "[training]\r\nworkers = 1\r\nlr = 1_000\r\n", {W: 4},
     "[training]\r\nworkers = 4\r\nlr = 1_000\r\n"),
    ("toml, dotted", ".toml", "training.workers = 1\ntraining.x = 'y'\n", {W: 4},
     "training.workers = 4\ntraining.x = 'y'\n"),
    ("toml, inline", ".toml", "training = { workers = 1, x = 2 } # t\n", {W: 4},
     "training = { workers = 4, x = 2 } # t\n"),
    ("toml, absent", ".toml", "[training]\nworkers = 1 # w\n\n[other]\nx = 1\n", {("training", "p"): 4},
     "[training]\nworkers = 1 # w\np = 4\n\n[other]\nx = 1\n"),
    ("toml, no last newline", ".toml", "[training]\nworkers = 1", {W: 4}, "[training]\nworkers = 4"),
]  # fmt: skip
REFUSED: list[tuple[str, str, str, dict[tuple[str, ...], Any], str]] = [
    ("shared by an alias", ".yaml", "training:\n  workers: &w 1\nval: *w\n", {W: 4}, r"shared: line 3 has it as \*w"),
    ("around it shared by a merge", ".yaml", "training: &t\n  workers: 1\nval:\n  <<: *t\n", {W: 4}, "line 4 has it"),
    ("an alias itself", ".yaml", "w: &w 1\ntraining: {workers: *w}\n", {W: 4}, r"workers is \*w"),
    ("below an alias", ".yaml", "t: &t {workers: 1}\ntraining: *t\n", {W: 4}, r"training is \*t"),
    ("deeper in what is merged", ".yaml", "b: &b {training: {workers: 1}}\nm:\n  <<: *b\n",
     {("m", "training", "workers"): 4}, "merged in"),
    ("an interpolation", ".yaml", "training:\n  workers: ${oc.env:W}\n", {W: 4}, "comes from elsewhere"),
    ("a quoted interpolation", ".yaml", "training:\n  workers: '${n}'\n", {W: 4}, "comes from elsewhere"),
    ("the key twice", ".yaml", "training:\n  workers: 1\n  workers: 2\n", {W: 4}, "stands there twice"),
    ("its parent twice", ".yaml", "training: {workers: 1}\ntraining: {workers: 2}\n", {W: 4}, "stands there twice"),
    ("several documents", ".yaml", "a: 1\n---\ntraining: {workers: 1}\n", {W: 4}, "cannot be read"),
    ("a template", ".yaml", "training:\n  workers: {{ w }}\n", {W: 4}, "cannot be read"),
    ("a tag of the author's", ".yaml", "x: !mine 1\ntraining: {workers: 1}\n", {W: 4}, "cannot be read"),
    ("a tag that does not suit", ".yaml", "training:\n  workers: !!str 1\n", {W: 4}, "cannot be changed"),
    ("several lines", ".yaml", "training:\n  workers: >\n    1\n", {W: 4}, "several lines"),
    ("a mapping", ".yaml", "training:\n  workers: {train: 1}\n", {W: 4}, "keys of its own"),
    ("a block list of another length", ".yaml", "f:\n  - 32\n", {("f",): (1, 2)}, "list of 1"),
    ("a list with a link in it", ".yaml", "a: &a 3\nf: [*a, 2]\n", {("f",): (1, 2)}, "stand elsewhere"),
    ("below a value", ".yaml", "training: 3\n", {W: 4}, "holds no keys"),
    ("a list at the top", ".yaml", "- 1\n", {W: 4}, "holds no keys"),
    ("tabs for indentation", ".yaml", "training:\n\tworkers: 1\n", {W: 4}, "cannot be read"),
    ("latin-1", ".yaml", "training: {workers: 1} # \udcfc\n", {W: 4}, "UTF-8"),
    ("json, twice", ".json", '{"training": {"workers": 1}, "training": {"workers": 2}}', {W: 4}, "twice"),
    ("json, comments", ".json", '{"training": {"workers": 1}} // x', {W: 4}, "cannot be read"),
    ("json, no parent", ".json", '{"x": 1}', {W: 4}, "there is no training"),
    ("json, a list", ".json", "[1]", {W: 4}, "holds no keys"),
    ("toml, no null", ".toml", "[training]\nworkers = 1\n", {W: None}, "no null"),
    ("toml, no parent", ".toml", "x = 1\n", {W: 4}, "there is no training"),
    ("toml, below a value", ".toml", "training = 1\n", {W: 4}, "holds no keys"),
]  # fmt: skip


def ids(cases: list[Any]) -> Any:
    return {"argvalues": [case[1:] for case in cases], "ids": [case[0] for case in cases]}


@pytest.mark.parametrize(("before", "changes", "after"), **ids(IN_PLACE))
def test_only_the_values_change(before: str, changes: dict[tuple[str, ...], Any], after: str) -> None:
    assert edited(before.encode(), ".yaml", changes).decode() == after


@pytest.mark.parametrize(("suffix", "before", "changes", "after"), **ids(OTHER_FORMATS))
def test_so_they_do_in_json_and_toml(suffix: str, before: str, changes: dict[tuple[str, ...], Any], after: str) -> None:
    assert edited(before.encode(), suffix, changes).decode() == after


@pytest.mark.parametrize(("suffix", "before", "changes", "why"), **ids(REFUSED))
def test_what_cannot_be_kept_whole_is_refused_with_the_reason(
    suffix: str, before: str, changes: dict[tuple[str, ...], Any], why: str
) -> None:
    raw = before.encode("latin-1" if "\udcfc" in before else "utf-8", "replace")
    if "\udcfc" in before:
        raw = before.replace("\udcfc", "ü").encode("latin-1")
    with pytest.raises(CannotEdit, match=why):
        edited(raw, suffix, changes)


words = st.text("abcxyz_", min_size=1, max_size=5)
scalars = st.one_of(
    st.integers(-99, 9999), st.booleans(), st.none(), st.floats(0.001, 1e6), st.text(max_size=8), st.just("${x}")
)
trees = st.recursive(
    st.one_of(scalars, st.lists(st.integers(0, 9), max_size=3)),
    lambda inner: st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
new_values = st.one_of(st.integers(0, 512), st.booleans(), st.sampled_from(["bf16", "no", "1", "", "a: b # c"]))


def paths(tree: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(tree, dict):
        return [above] if above else []
    return [(*above, "new_key"), *(path for key, value in tree.items() for path in paths(value, (*above, key)))]


def shared(one: str, other: str) -> int:
    """How much of their beginnings is the same."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@settings(max_examples=250, deadline=None)
@given(
    tree=st.dictionaries(words, trees, min_size=1, max_size=5), data=st.data(), value=new_values,
    form=st.sampled_from(["block", "flow", "json"]), crlf=st.booleans(), ended=st.booleans(),
)  # fmt: skip
@example(tree={"a": {"b": 1}}, data=None, value=2, form="block", crlf=True, ended=False)
def test_any_config_is_changed_as_asked_or_refused(
    tree: dict[str, Any], data: Any, value: Any, form: str, crlf: bool, ended: bool
) -> None:
    """And what is changed differs by one stretch of one line, or by one line that is new."""
    path = data.draw(st.sampled_from(paths(tree))) if data is not None else ("a", "b")
    if form == "json":
        text = json.dumps(tree, indent=2, ensure_ascii=False)
    else:
        text = yaml.safe_dump(tree, default_flow_style=form == "flow", allow_unicode=True, width=10**6, sort_keys=False)
        text = text.replace("\n", "  # kept\n") if "|" not in text and ">" not in text and form == "block" else text
    text = text.replace("\n", "\r\n") if crlf else text
    text = text if ended else text.rstrip("\r\n")
    suffix = ".json" if form == "json" else ".yaml"
    read = json.loads if form == "json" else yaml.safe_load
    before = text.encode("utf-8", "surrogatepass")
    try:
        found = edited(before, suffix, {path: value}).decode()
    except CannotEdit:
        return
    wanted = read(text)
    below = wanted
    for key in path[:-1]:
        below = below[key] if below.get(key) is not None else below.setdefault(key, {})
    below[path[-1]] = value
    assert read(found) == wanted
    start = shared(text, found)
    end = shared(text[start:][::-1], found[start:][::-1])
    gone, new = text[start : len(text) - end], found[start : len(found) - end]
    # But for a list on several lines, whose place one value takes.
    assert "[" in text or ("\n" not in gone and new.count("\n") <= 2)
    assert len(re.findall("# kept", found)) == len(re.findall("# kept", text))


def test_toml_reads_back(tmp_path: Any) -> None:
    text = '[a]\nx = 1\n[a.b]\ny = "z" # k\n[[list]]\nq = 2026-01-01\n'
    found = edited(text.encode(), ".toml", {("a", "b", "y"): "w", ("a", "x"): 2}).decode()
    assert tomllib.loads(found)["a"] == {"x": 2, "b": {"y": "w"}}
    assert found == '[a]\nx = 2\n[a.b]\ny = "w" # k\n[[list]]\nq = 2026-01-01\n'
