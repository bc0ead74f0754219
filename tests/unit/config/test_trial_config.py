from __future__ import annotations

import json
import math
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vtune.config.experiment_file import write_experiment
from vtune.config.launch_config import write_launch_config
from vtune.config.load import experiment_from_command, load_experiment
from vtune.config.trial_config import same_values, write_trial_config
from vtune.domain.experiment import Experiment, Workload
from vtune.errors import UsageError

Load = Callable[..., Experiment]
HEAD = "vtune:\n  command: python train.py --config {config}\n"


def copy(experiment: Experiment, target: Path, changes: dict[tuple[str, ...], Any]) -> str:
    write_trial_config(experiment.workload, changes, target)
    return target.read_text()


def test_a_copy_has_the_changes_and_no_section(load: Load, tmp_path: Path) -> None:
    text = "# mine\ntraining:\n    workers: 1   # slow\n    lr: 1e-3\n    amp: yes\n" + HEAD + "name: ü\n"
    written = copy(load(text), tmp_path / "config.yaml", {("training", "workers"): 4})
    assert written == "# mine\ntraining:\n    workers: 4   # slow\n    lr: 1e-3\n    amp: yes\nname: ü\n"


def test_a_list_is_replaced_where_it_stands(load: Load, tmp_path: Path) -> None:
    text = "data:\n  patch_size: [112, 112, 112]   # z, y, x\n  spacing: 1.0\n" + HEAD
    written = copy(load(text), tmp_path / "config.yaml", {("data", "patch_size"): (48, 96, 96)})
    assert written == "data:\n  patch_size: [48, 96, 96]   # z, y, x\n  spacing: 1.0\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model:\n  filters:\n    - 32\n    - 64\n  depth: 2\n", "config.yaml"),
        ("w: &w [32, 64]\nmodel: {filters: *w, depth: 2}\n", "config.yaml"),
        ('{"model": {"filters": [32, 64], "depth": 2}}', "config.json"),
    ],
)
def test_a_list_in_any_manner_is_set_as_a_whole(load: Load, here: Path, text: str, name: str) -> None:
    (here / f"user{Path(name).suffix}").write_text(text)
    asked = load(HEAD + f"  config: user{Path(name).suffix}\n")
    written = yaml.safe_load(copy(asked, here / name, {("model", "filters"): (16, 32)}))
    assert written["model"] == {"filters": [16, 32], "depth": 2} and written.get("w", [32, 64]) == [32, 64]


def test_a_shared_value_changes_only_where_it_was_asked(load: Load, tmp_path: Path) -> None:
    text = HEAD + "base: &b {loader: {workers: 1}}\ntrain: {<<: *b, x: 1}\nval: {<<: *b}\nn: &n 3\nm: *n\n"
    changes = {("train", "loader", "workers"): 4, ("m",): 7}
    assert yaml.safe_load(copy(load(text), tmp_path / "c.yaml", changes)) == {
        "base": {"loader": {"workers": 1}},
        "train": {"loader": {"workers": 4}, "x": 1},
        "val": {"loader": {"workers": 1}},
        "n": 3,
        "m": 7,
    }


def test_an_anchor_defined_in_the_section_still_resolves(load: Load, tmp_path: Path) -> None:
    text = "vtune:\n  command: python train.py {config}\n  study: &s mine\nname: *s\n"
    assert yaml.safe_load(copy(load(text), tmp_path / "c.yaml", {})) == {"name": "mine"}


def test_a_new_key_and_an_empty_value_can_be_set(load: Load, tmp_path: Path) -> None:
    changes = {("a", "b"): True, ("c",): "x y: #z", ("d",): None}
    written = copy(load(HEAD + "a: {z: 1}\nc:\nd: 3\n"), tmp_path / "c.yaml", changes)
    assert yaml.safe_load(written) == {"a": {"z": 1, "b": True}, "c": "x y: #z", "d": None}


def test_an_empty_config_is_copied_as_an_empty_mapping(load: Load, tmp_path: Path) -> None:
    assert copy(load(HEAD), tmp_path / "c.yaml", {}) == "{}\n"


def test_a_file_that_changed_since_it_was_read_is_copied_as_it_was_read(load: Load, here: Path) -> None:
    experiment = load(HEAD + "a: 1\n")
    (here / "exp.yaml").write_text(HEAD + "a: 2\n")
    assert yaml.safe_load(copy(experiment, here / "c.yaml", {})) == {"a": 1}


def test_json_stays_json(load: Load, here: Path) -> None:
    (here / "u.json").write_text('{"lr": 1e-3, "d": {"workers": 1}, "x": NaN, "s": "ü"}')
    written = json.loads(copy(load(HEAD + "  config: u.json\n"), here / "c.json", {("d", "workers"): 3}))
    assert (written["lr"], written["d"], written["s"]) == (0.001, {"workers": 3}, "ü")
    assert math.isnan(written["x"])


@pytest.mark.parametrize("text", ["[t]\nx = 1\n[t.opt]\nlr = 1\n", "[t.opt]\nlr = 1\n[u]\nx = 1\n"])
def test_a_new_key_of_toml_is_set_above_the_tables_below_its_own(load: Load, here: Path, text: str) -> None:
    (here / "u.toml").write_text(text)
    workload = load(HEAD + "  config: u.toml\n").workload
    wanted = tomllib.loads(text)
    wanted["t"]["workers"] = 4
    for write in (write_trial_config, write_launch_config):
        write(workload, {("t", "workers"): 4}, here / "c.toml")
        assert tomllib.loads((here / "c.toml").read_text()) == wanted


def test_toml_stays_toml(load: Load, here: Path) -> None:
    (here / "u.toml").write_text("workers = 1  # few\n[data]\npatch = [ 32, 64 ]\n")
    experiment = load(HEAD + "  config: u.toml\n")
    assert copy(experiment, here / "c.toml", {}) == "workers = 1  # few\n[data]\npatch = [ 32, 64 ]\n"
    changed = copy(experiment, here / "c.toml", {("workers",): 2, ("data", "patch"): (16, 32), ("data", "out"): "x"})
    assert changed.startswith("workers = 2  # few\n[data]\n")
    assert tomllib.loads(changed) == {"workers": 2, "data": {"patch": [16, 32], "out": "x"}}
    with pytest.raises(UsageError, match="TOML has no null for workers"):
        copy(experiment, here / "c.toml", {("workers",): None})


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()
trees = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=15)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text(), trees))
@example({"a\x85": "b\u2028 \x07", "": [{}, [], 1e16, -0.0], "1e3": "1e3", "yes": "on", "012": 10})
def test_every_value_reads_back_as_it_was(config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "config.yaml"
        write_trial_config(Workload(command=("x",), cwd=Path(folder), config=config), {}, target)
        assert same_values(yaml.safe_load(target.read_text(encoding="utf-8")), config)
        assert [path.name for path in Path(folder).iterdir()] == ["config.yaml"]


def test_one_and_true_are_not_the_same_value() -> None:
    assert not same_values({"a": 1}, {"a": True})
    assert not same_values({"a": 1}, {"a": 1.0})
    assert not same_values({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert same_values([math.nan], [math.nan])


FULL = """\
vtune:
  command: "{python} train.py --config {config}"
  env: {A: '1'}
  limits: {vram: 76GiB, ram: 95%}
  window: {steps: 20, max_steps: 40, trial_time: 90.5, startup_time: 5m, hang_time: 7m}
  run: {epochs: 3, samples_per_epoch: 806}
  price: EUR 3.67/h
  allow: close
  knobs: {workers: {key: training.threads, values: [1, 2]}, pin_memory: {values: [true]}}
  settings: {workers: 4, pin_memory: false}
training: {threads: 2, iterations_per_epoch: 5}
"""


def test_a_studys_experiment_file_says_the_same_from_anywhere(
    load: Load, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(FULL)
    study = here / "results" / "exp"
    study.mkdir(parents=True)
    write_experiment(first, study / "experiment.yaml")
    monkeypatch.chdir("/")
    again = load_experiment(study / "experiment.yaml")
    for name in ("study", "workload", "limits", "window", "price", "allow", "knobs"):
        assert getattr(again, name) == getattr(first, name), name
    # What was set for a trial was for that trial.
    assert first.settings and not again.settings
    assert again.planned_run.epochs == 3
    assert again.planned_run.iterations_source == "training.iterations_per_epoch in exp.yaml"


def test_a_plain_commands_experiment_file_says_the_same(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = experiment_from_command(["python", "train.py", "--name", "a b", "--epochs", "3"])
    (here / "s").mkdir()
    write_experiment(first, here / "s" / "experiment.yaml")
    monkeypatch.chdir("/")
    again = load_experiment(here / "s" / "experiment.yaml")
    for name in ("study", "workload", "limits", "window", "planned_run", "settings"):
        assert getattr(again, name) == getattr(first, name), name
