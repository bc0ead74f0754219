"""A config edited in place: every byte but the value's as it was, or refused with the reason."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vtune.config.edit import edited, parsed, rewritten
from vtune.config.edit_problem import CannotEdit

W = ("training", "workers")
IN_PLACE: list[tuple[str, str, dict[tuple[str, ...], Any], str]] = [
    ("a comment beside it", "training:\n  workers: 1   # slow\n", {W: 4}, "training:\n  workers: 4   # slow\n"),
    ("four spaces", "# top\ntraining:\n    workers: 1\n    lr: 1e-3\n", {W: 4},
     "# top\ntraining:\n    workers: 4\n    lr: 1e-3\n"),
    ("CRLF", "training:\r\n  workers: 1\r\n  x: 2\r\n", {W: 4}, "training:\r\n  workers: 4\r\n  x: 2\r\n"),
    ("a byte order mark", "\ufefftraining:\n  workers: 1\n", {W: 4}, "\ufefftraining:\n  workers: 4\n"),
    ("a no-break space", "training:\n  workers: \xa0x\u3000  # kept\n", {W: 4}, "training:\n  workers: 4  # kept\n"),
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
    ("absent before a nested part and its comment", "x: 1\ntraining:\n  # of Adam\n  opt:\n    lr: 1\n",
     {("training", "p"): 2}, "x: 1\ntraining:\n  p: 2\n  # of Adam\n  opt:\n    lr: 1\n"),
    ("absent at the top, below what the file begins with", "# @package _global_\ntraining:\n  x: 1\n", {("p",): 2},
     "# @package _global_\np: 2\ntraining:\n  x: 1\n"),
    ("several at once", "a: 1\nb: {c: 2, d: 3} # x\ne: 'z'\n", {("a",): 10, ("b", "d"): 30, ("e",): "q"},
     "a: 10\nb: {c: 2, d: 30} # x\ne: 'q'\n"),
    ("a duplicate key elsewhere", "x: 1\nx: 2\ntraining: {workers: 1}\n", {W: 4},
     "x: 1\nx: 2\ntraining: {workers: 4}\n"),
    ("a tag that stays", "training:\n  workers: !!int 1\n", {W: 4}, "training:\n  workers: !!int 4\n"),
    ("a text block around it", "note: |\n  workers: 1\n   # no comment\ntraining:\n  workers: 1\n", {W: 4},
     "note: |\n  workers: 1\n   # no comment\ntraining:\n  workers: 4\n"),
    ("a flow list on several lines", "f: [32, # first\n    64] # f\n", {("f",): (16, 64)},
     "f: [16, # first\n    64] # f\n"),
    ("an item that is written otherwise stays", "f: [0x20, 64]\n", {("f",): (32, 96)}, "f: [0x20, 96]\n"),
    ("a value that is written otherwise stays", "training:\n  workers: 0x4\n", {W: 4},
     "training:\n  workers: 0x4\n"),
    ("two absent keys with their parent", "x: 1\n", {("training", "a"): 1, ("training", "b"): 2},
     "x: 1\ntraining:\n  a: 1\n  b: 2\n"),
    ("a trailing comma in flow", "training: {workers: 1, # w\n  }\n", {("training", "p"): 2},
     "training: {workers: 1, p: 2, # w\n  }\n"),
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
    ("json, a list on lines", ".json", '{\n  "patch": [\n    96,\n    96\n  ]\n}\n', {("patch",): (48, 96)},
     '{\n  "patch": [\n    48,\n    96\n  ]\n}\n'),
    ("json, a list of another length", ".json", '{"patch": [96, 96], "x": [1]}', {("patch",): (48, 96, 96)},
     '{"patch": [48, 96, 96], "x": [1]}'),
    ("json, what is no comment", ".json", '{"f": [\n"#1",\n"#2"]}', {("f",): (1,)}, '{"f": [1]}'),
    ("json, a number that is written otherwise", ".json", '{"a": 1e1, "b": 2}', {("a",): 10.0, ("b",): 3},
     '{"a": 1e1, "b": 3}'),
    ("json, absent, in nothing on lines", ".json", '{\r\n  "training": {\r\n  }\r\n}', {("training", "p"): 2},
     '{\r\n  "training": {\r\n    "p": 2\r\n  }\r\n}'),
    ("json, a byte order mark", ".json", '\ufeff{"training": {"workers": 1}}', {W: 4},
     '\ufeff{"training": {"workers": 4}}'),
    ("toml, single quotes", ".toml", "p = 'fp32' # p\n", {("p",): "bf16"}, "p = 'bf16' # p\n"),
    ("toml, double quotes", ".toml", 'p = "fp32"\n', {("p",): "bf16"}, 'p = "bf16"\n'),
    ("toml, three quotes", ".toml", 'p = """fp32"""\n', {("p",): "bf16"}, 'p = """bf16"""\n'),
    ("toml, quotes that cannot hold it", ".toml", "p = 'fp32'\n", {("p",): "o'f"}, 'p = "o\'f"\n'),
    ("toml, no string before", ".toml", "p = 1\n", {("p",): 'a"b\\'}, 'p = "a\\"b\\\\"\n'),
    ("toml, a switch", ".toml", "p = false # p\n", {("p",): True}, "p = true # p\n"),
    ("toml, a float", ".toml", "p=1_0.5\n", {("p",): 1e-05}, "p=1e-05\n"),
    ("toml, a number that is written otherwise", ".toml", "a = 0x60\nb = [0x60, 1_000]\n",
     {("a",): 96, ("b",): (96, 8)}, "a = 0x60\nb = [0x60, 8]\n"),
    ("toml, a list with comments", ".toml", "patch = [\r\n  96, # z\r\n  96,\r\n  # x\r\n] # p\r\n",
     {("patch",): (48, 96)}, "patch = [\r\n  48, # z\r\n  96,\r\n  # x\r\n] # p\r\n"),
    ("toml, a list of another length", ".toml", "patch = [ 96, 96 ] # p\n", {("patch",): (48, 96, 96)},
     "patch = [48, 96, 96] # p\n"),
    ("toml, CRLF, absent", ".toml", "[training]\r\nworkers = 1\r\n\r\n# of others\r\n[other]\r\nx = 1\r\n",
     {("training", "p"): 4},
     "[training]\r\nworkers = 1\r\np = 4\r\n\r\n# of others\r\n[other]\r\nx = 1\r\n"),
    ("toml, absent above the next table's comment", ".toml", "[training]\nworkers = 1\n# of others\n[other]\nx = 1\n",
     {("training", "p"): 4}, "[training]\nworkers = 1\np = 4\n# of others\n[other]\nx = 1\n"),
    ("toml, absent and no last newline", ".toml", "[training]\n  workers=1",
     {("training", "p"): 4, ("training", "q"): 5}, "[training]\n  workers=1\n  p=4\n  q=5"),
    ("toml, absent in an empty table", ".toml", "[training] # t\n[other]\n", {("training", "p"): True},
     "[training] # t\np = true\n[other]\n"),
    ("toml, absent at the top", ".toml", "# top\n\nx = 1\n\n# t\n[training]\n", {("p",): 4},
     "# top\n\nx = 1\np = 4\n\n# t\n[training]\n"),
    ("toml, absent at a top without keys", ".toml", "# top\n\n# t\n[training]\n", {("p",): 4},
     "# top\n\np = 4\n# t\n[training]\n"),
    ("toml, absent below dots", ".toml", "training.workers = 1\nx = 2\n", {("training", "p"): 4},
     "training.workers = 1\ntraining.p = 4\nx = 2\n"),
    ("toml, absent below a table and dots", ".toml", "[a]\nb . c.d = 1 # d\n\n[e]\n", {("a", "b", "c", "new key"): 4},
     '[a]\nb . c.d = 1 # d\nb . c."new key" = 4\n\n[e]\n'),
    ("toml, absent in a line", ".toml", "training = { workers = 1 } # t\n", {("training", "p"): 4},
     "training = { workers = 1, p = 4 } # t\n"),
    ("toml, absent in nothing", ".toml", "training = {} # t\n", {("training", "p"): 4}, "training = { p = 4 } # t\n"),
    ("toml, absent where only parts have a table", ".toml", "x = 1\n\n# o\n[training.opt]\nlr = 1\n",
     {("training", "p"): 4}, "x = 1\n\n[training]\np = 4\n\n# o\n[training.opt]\nlr = 1\n"),
    ("toml, what looks like a comment", ".toml", "s = \'\'\'\n# s\'\'\'\n[training.opt]\n", {("training", "p"): 4},
     "s = \'\'\'\n# s\'\'\'\n[training]\np = 4\n\n[training.opt]\n"),
    ("toml, what looks like a table", ".toml",
     'note = """\n[training]\nworkers = 1 # \\"""\n"""""\nq = \'\'\'\n[x]\'\'\'\'\n[ "training" ]\n\'workers\' = 1\n',
     {W: 4},
     'note = """\n[training]\nworkers = 1 # \\"""\n"""""\nq = \'\'\'\n[x]\'\'\'\'\n[ "training" ]\n\'workers\' = 4\n'),
    ("toml, dates and lists of tables around it", ".toml",
     "d = 2026-01-01 07:30:00 # d\n[[s]]\nworkers = 1\n[s.t]\nx = 1\n[[s]]\n[training]\nworkers = 1\n", {W: 4},
     "d = 2026-01-01 07:30:00 # d\n[[s]]\nworkers = 1\n[s.t]\nx = 1\n[[s]]\n[training]\nworkers = 4\n"),
    ("toml, a byte order mark and unicode", ".toml", '\ufeffs = "ü🙂" # größer\n[training]\nworkers = 1\n', {W: 4},
     '\ufeffs = "ü🙂" # größer\n[training]\nworkers = 4\n'),
    ("toml, interpolated by others", ".toml", "[training]\nworkers = 1\nval = '${training.workers}'\n", {W: 4},
     "[training]\nworkers = 4\nval = '${training.workers}'\n"),
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
    ("the key twice, the last as wanted", ".yaml", "training:\n  workers: 1\n  workers: 4\n", {W: 4},
     "stands there twice"),
    ("its parent twice", ".yaml", "training: {workers: 1}\ntraining: {workers: 2}\n", {W: 4}, "stands there twice"),
    ("several documents", ".yaml", "a: 1\n---\ntraining: {workers: 1}\n", {W: 4}, "cannot be read"),
    ("a template", ".yaml", "training:\n  workers: {{ w }}\n", {W: 4}, "cannot be read"),
    ("a tag of the author's", ".yaml", "x: !mine 1\ntraining: {workers: 1}\n", {W: 4}, "cannot be read"),
    ("a tag that does not suit", ".yaml", "training:\n  workers: !!str 1\n", {W: 4}, "cannot be changed"),
    ("several lines", ".yaml", "training:\n  workers: >\n    1\n", {W: 4}, "several lines"),
    ("a mapping", ".yaml", "training:\n  workers: {train: 1}\n", {W: 4}, "keys of its own"),
    ("a block list of another length", ".yaml", "f:\n  - 32\n", {("f",): (1, 2)}, "list of 1"),
    ("a list with a link in it", ".yaml", "a: &a 3\nf: [*a, 2]\n", {("f",): (1, 2)}, "stand elsewhere"),
    ("below an empty text", ".yaml", "training: ''\n", {W: 4}, "holds no keys"),
    ("below a value", ".yaml", "training: 3\n", {W: 4}, "holds no keys"),
    ("a list at the top", ".yaml", "- 1\n", {W: 4}, "holds no keys"),
    ("tabs for indentation", ".yaml", "training:\n\tworkers: 1\n", {W: 4}, "cannot be read: line 2: found character"),
    ("latin-1", ".yaml", "training: {workers: 1} # \udcfc\n", {W: 4}, "UTF-8"),
    ("json, twice", ".json", '{"training": {"workers": 1}, "training": {"workers": 2}}', {W: 4}, "twice"),
    ("json, comments", ".json", '{"training": {"workers": 1}} // x', {W: 4}, "cannot be read"),
    ("json, no parent", ".json", '{"x": 1}', {W: 4}, "there is no training"),
    ("json, a list", ".json", "[1]", {W: 4}, "holds no keys"),
    ("toml, no null", ".toml", "[training]\nworkers = 1\n", {W: None}, "no null"),
    ("toml, no parent", ".toml", "x = 1\n", {W: 4}, "there is no training"),
    ("toml, below a value", ".toml", "training = 1\n", {W: 4}, "holds no keys"),
    ("a commented flow list of another length", ".yaml", "f: [32, # first\n  64]\n", {("f",): (32,)}, "comment"),
    ("a comment in an empty mapping", ".yaml", "training: {\n  # none yet\n  }\n", {W: 4}, "comment"),
    ("an item that comes from elsewhere", ".yaml", "f: [32, '${y}']\n", {("f",): (32, 64, 96)}, "elsewhere"),
    ("a linked item, another length", ".yaml", "a: &a 3\nf: [*a, 2]\n", {("f",): (1, 2, 3)}, "elsewhere"),
    ("an absent key among carriage returns", ".yaml", "training:\r  workers: 1\r", {("training", "p"): 4}, "line ends"),
    ("json, keys of its own", ".json", '{"training": {"workers": {"train": 1}}}', {W: 4}, "keys of its own"),
    ("json, an interpolation", ".json", '{"training": {"workers": "${n}"}}', {W: 4}, "comes from elsewhere"),
    ("json, no number", ".json", '{"training": {"workers": 1}}', {W: float("inf")}, "JSON has no"),
    ("toml, a commented list of another length", ".toml", "f = [\n 96, # z\n 96,\n]\n", {("f",): (48,)}, "comment"),
    ("toml, keys of its own", ".toml", "[training.workers]\ntrain = 1\n", {W: 4}, "keys of its own"),
    ("toml, inline keys of its own", ".toml", "training.workers = {train = 1}\n", {W: 4}, "keys of its own"),
    ("toml, a list of tables", ".toml", "[[training]]\nworkers = 1\n", {W: 4}, "list of tables"),
    ("toml, several lines", ".toml", 'p = """\nfp32"""\n', {("p",): "bf16"}, "several lines"),
    ("toml, an interpolation", ".toml", "[training]\nworkers = '${n}'\n", {W: 4}, "comes from elsewhere"),
    ("toml, twice", ".toml", "[training]\nworkers = 1\nworkers = 2\n", {W: 4}, "cannot be read"),
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


BESIDE = ("a commented flow list of another length", "toml, a commented list of another length", "shared by an alias")


@pytest.mark.parametrize("case", [case for case in REFUSED if case[0] in BESIDE], ids=lambda case: case[0])
def test_what_is_refused_can_be_had_as_a_text_of_its_own(case: Any) -> None:
    _, suffix, before, changes, _ = case
    found = rewritten(before.encode(), suffix, changes)
    ((path, value),) = changes.items()
    plain = list(value) if isinstance(value, tuple) else value
    assert found is not None and parsed(found, suffix) == with_new(parsed(before, suffix), path, plain)


words = st.text("abcxyz_", min_size=1, max_size=5)
strings = st.one_of(st.text(max_size=8), st.sampled_from(["${x}", "fp32", "no", "1", "it's", "a: b # c"]))
scalars = st.one_of(st.integers(-99, 9999), st.booleans(), st.none(), st.floats(0.001, 1e6), strings)
trees = st.recursive(
    st.one_of(scalars, st.lists(st.integers(0, 9), max_size=3)),
    lambda inner: st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
new_values = st.one_of(
    st.integers(0, 512),
    st.booleans(),
    st.sampled_from(["bf16", "no", "1", "", "a: b # c"]),
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
)
# A value that no tree has: where it stands in a text, the one that it stands for stood.
MARK = 987654321


def paths(tree: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(tree, dict):
        return [above] if above else []
    return [(*above, "new_key"), *(path for key, value in tree.items() for path in paths(value, (*above, key)))]


def value_at(tree: dict[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def with_new(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    return value if not path else {**(tree or {}), path[0]: with_new((tree or {}).get(path[0]), path[1:], value)}


def without_nulls(tree: Any) -> Any:
    """As TOML has it."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items()}
    return 0 if tree is None else tree


def written(tree: dict[str, Any], form: str) -> str:
    """As an author may have it, with a comment behind each line that can have one."""
    if form == "json":
        return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    if form == "toml":
        text = tomlkit.dumps(tree)
        return re.sub(r"(?<=[^\n])\n", "  # kept\n", text) if '"""' not in text else text
    text = yaml.safe_dump(tree, default_flow_style=form == "flow", allow_unicode=True, width=10**6, sort_keys=False)
    if not has_long_strings(text):
        text = text.replace("\n", "  # kept\n")
        if form == "flow" and not any(", " in leaf for leaf in strings_of(tree)):
            text = text.replace(", ", ",  # kept\n  ")
    return text


def strings_of(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        return [one for value in tree.values() for one in strings_of(value)]
    return [tree] if isinstance(tree, str) else []


def has_long_strings(text: str) -> bool:
    tokens = [token for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken)]
    return any(token.start_mark.line != token.end_mark.line for token in tokens)


def may_be_refused(tree: dict[str, Any], path: tuple[str, ...], value: Any, form: str, text: str) -> bool:
    """What the page names; everything else is plain and has to be changed."""
    if path[-1] == "new_key":
        return False
    old = value_at(tree, path)
    if isinstance(old, str) and re.search(r"\$\{|\{\{|%\(", old):
        return True
    if isinstance(old, list) and old and not (isinstance(value, tuple) and len(old) == len(value)):
        return form == "block" or (form == "flow" and len(old) > 1 and re.search(r"# kept\r?\n  ", text) is not None)
    return form in ("block", "flow") and isinstance(old, str) and len((old + ".").splitlines()) > 1


def shared(one: str, other: str) -> int:
    """How much of their beginnings is the same."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@settings(max_examples=250, deadline=None)
@given(
    tree=st.dictionaries(words, trees, min_size=1, max_size=5), data=st.data(), value=new_values,
    form=st.sampled_from(["block", "flow", "json", "toml"]), crlf=st.booleans(), ended=st.booleans(),
)  # fmt: skip
@example(tree={"a": {"b": 1}}, data=("a", "b"), value=2, form="block", crlf=True, ended=False)
@example(tree={"a": {"b": [1, 2]}, "c": {"d": 1}}, data=("a", "b"), value=(1, 3), form="toml", crlf=True, ended=False)
@example(tree={"a": {"b": [1, 2]}, "c": {"d": 1}}, data=("a", "b"), value=(1,), form="flow", crlf=True, ended=False)
@example(tree={"a": {"c": 1}, "d": {"e": 1}}, data=("a", "new_key"), value=3, form="toml", crlf=True, ended=False)
def test_any_config_is_changed_as_asked_and_nowhere_else(
    tree: dict[str, Any], data: Any, value: Any, form: str, crlf: bool, ended: bool
) -> None:
    """Or, if it is none of the plain ones, refused."""
    tree = without_nulls(tree) if form == "toml" else tree
    path = data if isinstance(data, tuple) else data.draw(st.sampled_from(paths(tree)))

    def file_of(config: dict[str, Any]) -> str:
        text = written(config, form)
        text = re.sub("\r?\n", "\r\n", text) if crlf else text
        return text if ended else text.rstrip("\r\n")

    text = file_of(tree)
    suffix = {"json": ".json", "toml": ".toml"}.get(form, ".yaml")
    plain = list(value) if isinstance(value, tuple) else value
    try:
        found = edited(text.encode("utf-8", "surrogatepass"), suffix, {path: value}).decode()
    except CannotEdit as why:
        assert may_be_refused(tree, path, value, form, text), (text, path, value, why)
        return
    assert parsed(found, suffix) == with_new(parsed(text, suffix), path, plain)
    assert found.count("# kept") == text.count("# kept")
    begin = shared(text, found)
    end = shared(text[begin:][::-1], found[begin:][::-1])
    gone, new = text[begin : len(text) - end], found[begin : len(found) - end]
    if path[-1] == "new_key":
        assert gone.strip() == "" and "new_key" in new and new.count("\n") <= (3 if form == "toml" else 1)
        assert new.count("\n") == new.count("\r\n") or "\r\n" not in text
        return
    old = value_at(tree, path)
    if isinstance(old, list) and isinstance(plain, list) and len(old) == len(plain):
        assert re.sub(r"\d+", "0", found) == re.sub(r"\d+", "0", text)
        return
    # Where the value stood is told by the same config with the mark in its place.
    before, _, after = file_of(with_new(tree, path, MARK)).partition(str(MARK))
    in_its_place = text.startswith(before) and text.endswith(after)
    assert in_its_place or isinstance(old, list)
    if in_its_place:
        assert found.startswith(before) and found.endswith(after)
        assert not re.search(r"^\s|\s$", found[len(before) : len(found) - len(after)])


def test_toml_reads_back(tmp_path: Any) -> None:
    text = '[a]\nx = 1\n[a.b]\ny = "z" # k\n[[list]]\nq = 2026-01-01\n'
    found = edited(text.encode(), ".toml", {("a", "b", "y"): "w", ("a", "x"): 2}).decode()
    assert tomllib.loads(found)["a"] == {"x": 2, "b": {"y": "w"}}
    assert found == '[a]\nx = 2\n[a.b]\ny = "w" # k\n[[list]]\nq = 2026-01-01\n'
