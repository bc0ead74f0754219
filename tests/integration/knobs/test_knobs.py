"""`vtune knobs` as a user starts it, and a flag of a real training turned by a real trial."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, Said, quiet_env, vtune, vtune_in_process
from vtune.domain.knob import Knob
from vtune.knobs.registry import KNOBS

FIELDS = {
    "name", "doc", "kind", "numerics", "numerics_reason", "values", "values_note",
    "current", "current_from", "way", "through", "how", "why_not",
}  # fmt: skip
TRAINING = """
import argparse, torch
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int)
parser.add_argument("-b", "--batch-size", type=int)
options = parser.parse_args()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.zeros(100_000, 4))
loader = DataLoader(data, batch_size=options.batch_size, num_workers=options.num_workers)
for (x,) in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


def by_name(said: Said) -> dict[str, Any]:
    assert said.code == 0, said.stderr
    assert set(said.json) == {"study", "command", "config", "machine", "knobs"}
    assert all(set(knob) == FIELDS for knob in said.json["knobs"])
    return {knob["name"]: knob for knob in said.json["knobs"]}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("raise SystemExit('it was started')\n")
    return tmp_path


def test_a_config_and_a_command_each_tell_their_way_and_nothing_is_written(here: Path) -> None:
    config = here / "exp.yaml"
    config.write_text("vtune:\n  command: python train.py {config}\ntraining: {workers: 1}\n")
    before = sorted(here.rglob("*"))
    through_config = by_name(vtune_in_process("knobs", "--json", "--config", config, cwd=here))
    assert (through_config["workers"]["way"], through_config["workers"]["current"]) == ("config_key", 1)
    said = vtune_in_process("knobs", "--json", "--", "python", "train.py", "--num-workers", "4", cwd=here)
    through_flag = by_name(said)
    assert (through_flag["workers"]["through"], through_flag["workers"]["current"]) == ("--num-workers", 4)
    assert through_flag["pin_memory"]["way"] == "hook" and through_flag["accumulate_steps"]["why_not"]
    assert said.stderr == "" and sorted(here.rglob("*")) == before


def test_without_a_workload_the_knobs_of_the_machine_are_shown(here: Path) -> None:
    said = vtune_in_process("knobs", cwd=here)
    assert said.code == 0 and "\x1b" not in said.stdout and said.stderr == ""
    assert "for your workload" in said.stdout
    assert all(knob["way"] is None for knob in by_name(vtune_in_process("knobs", "--json", cwd=here)).values())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--study", "nope"], "no study nope"),
        (["--", "no-such-program"], "no-such-program"),
        (["--config", "a.yaml", "--", "python", "train.py"], "both"),
    ],
)
def test_what_is_wrong_is_a_usage_error_with_a_hint(here: Path, arguments: list[str], word: str) -> None:
    said = vtune_in_process("knobs", *arguments, cwd=here)
    assert said.code == 2 and said.stderr.startswith("error: ") and word in said.stderr and said.stdout == ""


def test_it_works_where_trials_cannot_run_and_there_is_no_torch(here: Path) -> None:
    program = f"""
import importlib.abc, os, sys, sysconfig
sysconfig.get_config_vars()  # of the real platform: Python's own, and read once
sys.path.insert(0, {str(ROOT)!r})
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
sys.platform = "darwin"
del os.sched_getaffinity
from vtune.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
    arguments = ["knobs", "--json", "--", sys.executable, "train.py", "-j", "3"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=here,
        env=quiet_env(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["knobs"][0]["current"] == 3


def test_the_page_documents_every_field_and_every_knob() -> None:
    page = (ROOT / "docs" / "knobs.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert FIELDS | {"study", "command", "config", "machine", "knobs"} <= documented
    assert [row for row in map(row_of, KNOBS) if row not in page] == []


def row_of(knob: Knob) -> str:
    names = dict.fromkeys(key.rpartition(".")[2] for key in knob.config_keys)
    flags = [f"-{flag}" if len(flag) == 1 else f"--{flag}" for flag in knob.flags]
    words = ", ".join(f"`{word}`" for word in (*names, *flags))
    inside = "yes" if knob.loader_option else f"no, by `{knob.env}`" if knob.env else "no"
    return f"| `{knob.name}` | {knob.numerics} | {knob.numerics_reason} | {inside} | {words} |"


def test_the_plan_shows_the_word_that_is_turned_and_where_the_copy_of_a_named_config_goes(here: Path) -> None:
    (here / "exp.yaml").write_text("training: {workers: 1}\n")
    command = ["--", sys.executable, "train.py", "-b2", "--config=exp.yaml"]
    flag = vtune_in_process("probe", "--json", "--dry-run", "--set", "batch_size=4", *command, cwd=here).json
    assert flag["command"][1:] == ["train.py", "-b4", "--config=exp.yaml"]
    assert flag["effects"] == ["-b = 4 in the command"] and not flag["scout"]
    key = vtune_in_process("probe", "--json", "--dry-run", "--set", "workers=2", *command, cwd=here).json
    assert key["command"][1:] == ["train.py", "-b2", "--config={config}"]
    assert key["effects"] == ["training.workers = 2 in the trial's copy of the config"] and not key["scout"]


@pytest.mark.slow
def test_a_flag_is_turned_in_a_real_trial_and_one_that_is_ignored_makes_it_invalid(here: Path) -> None:
    (here / "train.py").write_text(TRAINING)
    command = ["--", sys.executable, "train.py", "--num-workers", "0", "--batch-si", "2"]
    options = ["--json", "--study", "s", "--steps", "20", "--results", "out", "--set"]
    asked = [*options, "workers=1", "--set", "batch_size=4"]
    plan = vtune_in_process("probe", "--dry-run", *asked, *command, cwd=here).json
    said = vtune("probe", *asked, *command, cwd=here)
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert (record["settings"]["workers"], record["settings"]["batch_size"]) == (1, 4)
    # No trial of the user's own settings has told theirs.
    assert record["effective_batch"] == 4
    [note] = [note for note in record["notes"] if "effective batch" in note]
    assert "not measured" in note and "learning rate" not in note
    spec = json.loads((here / "out" / "s" / "trials" / "0001" / "spec.json").read_text())
    assert spec["command"] == plan["command"] == [sys.executable, "train.py", "--num-workers", "1", "--batch-si", "4"]
    assert [effect["kind"] for effect in spec["effects"]] == ["SetArgument", "SetArgument"]
    assert not plan["scout"] and not (here / "out" / "s" / "scout.json").exists()

    (here / "train.py").write_text(TRAINING.replace("num_workers=options.num_workers", "num_workers=0"))
    ignored = vtune("probe", *options, "workers=2", *command, cwd=here)
    assert ignored.code == 5 and ignored.json["trial"]["status"] == "invalid"
    assert "asked for workers=2" in ignored.json["trial"]["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("heeded", [True, False])
def test_what_no_loader_has_reaches_a_real_training_which_must_heed_it(here: Path, heeded: bool) -> None:
    script = TRAINING.replace("options =", 'parser.add_argument("--precision")\noptions =')
    said_first = "print('ran with', options.precision, torch.get_num_threads())\nmodel ="
    script = script.replace("model =", said_first, 1)
    if heeded:
        autocast = "torch.autocast('cpu', torch.bfloat16, options.precision == 'bf16-mixed')"
        script = script.replace("    model(x)", f"    with {autocast}:\n        loss = model(x)\n    loss")
    (here / "train.py").write_text(script)
    command = ["--", sys.executable, "train.py", "--num-workers", "1", "-b", "2", "--precision", "32-true"]
    options = ["--json", "--steps", "20", "--results", "out", "--set", "precision=bf16", "--set", "threads=1"]
    said = vtune("probe", "--study", "s", *options, *command, cwd=here)
    record = said.json["trial"]
    assert (said.code, record["status"]) == ((0, "completed") if heeded else (5, "invalid")), said.stderr
    assert heeded or record["detail"].startswith("asked for precision=bf16, the training ran with weights in float32")
    assert record["settings"].items() >= {"precision": "bf16", "threads": 1}.items()
    trial = here / "out" / "s" / "trials" / "0001"
    assert "ran with bf16-mixed 1" in (trial / "stdout.log").read_text()
    assert not (here / "out" / "s" / "scout.json").exists()


def test_a_word_that_may_be_a_strangers_is_said_to_be_left_alone_by_the_knobs_and_by_the_plan(here: Path) -> None:
    command = ["--", sys.executable, "train.py", "--run-name", "workers=4"]
    why = "workers=4 of the command may be the value of --run-name"
    workers = by_name(vtune_in_process("knobs", "--json", *command, cwd=here))["workers"]
    assert (workers["way"], workers["current"]) == ("hook", None) and workers["how"].endswith(why)
    plan = vtune_in_process("probe", "--json", "--dry-run", "--set", "workers=2", *command, cwd=here).json
    assert plan["command"][1:] == ["train.py", "--run-name", "workers=4"] and plan["scout"]
    assert plan["effects"] == [f"num_workers = 2 of the training's loader, from inside: {why}"]


@pytest.mark.slow
def test_another_runs_name_stays_as_it_is_and_the_hook_turns_the_loader(here: Path) -> None:
    script = TRAINING.replace('"--num-workers", type=int', '"--run-name"')
    script = script.replace("options.batch_size, num_workers=options.num_workers", "2, num_workers=1")
    (here / "train.py").write_text(script.replace("model =", "print('run', options.run_name)\nmodel =", 1))
    command = ["--", sys.executable, "train.py", "--run-name", "workers=4"]
    said = vtune(
        "probe", "--json", "--study", "s", "--steps", "20", "--set", "workers=2", "--results", "out", *command, cwd=here
    )
    assert said.code == 0, said.stderr
    assert said.json["trial"]["settings"]["workers"] == 2
    folders = [here / "out" / "s" / "scout", here / "out" / "s" / "trials" / "0001"]
    for folder in folders:
        assert json.loads((folder / "spec.json").read_text())["command"] == command[1:]
        assert "run workers=4" in (folder / "stdout.log").read_text()
    workers = by_name(vtune_in_process("knobs", "--json", "--study", "s", "--results", "out", cwd=here))["workers"]
    assert workers["current"] == 1 and workers["way"] == "hook"


@pytest.mark.slow
def test_a_flag_that_did_not_reach_the_loader_costs_one_trial_of_the_study_and_no_second(here: Path) -> None:
    """-b is the beam of this training, not its batch."""
    script = TRAINING.replace('"-b", "--batch-size"', '"-b", "--beam"').replace("options.batch_size", "2")
    (here / "train.py").write_text(script)
    command = ["--", sys.executable, "train.py", "--num-workers", "0", "-b", "3"]
    options = ["--json", "--study", "s", "--steps", "20", "--results", "out", "--set"]
    wrong = vtune("probe", *options, "batch_size=3", *command, cwd=here)
    assert wrong.code == 5 and wrong.json["trial"]["status"] == "invalid"
    assert "this study now turns batch_size from inside" in " ".join(wrong.json["next"])
    way = by_name(vtune_in_process("knobs", "--json", "--study", "s", "--results", "out", cwd=here))["batch_size"]
    assert way["way"] == "hook" and "-b of the command did not reach the loader" in way["how"]
    asked = vtune_in_process("probe", "--dry-run", *options, "batch_size=4", *command, cwd=here).json
    assert asked["scout"] and asked["command"] == command[1:]
    right = vtune("probe", *options, "batch_size=4", *command, cwd=here)
    assert right.code == 0 and right.json["trial"]["settings"]["batch_size"] == 4
    # With other words it is another question.
    (here / "train.py").write_text(TRAINING)
    asked = vtune_in_process("probe", "--dry-run", *options, "batch_size=4", *command, cwd=here).json
    assert not asked["scout"] and asked["command"][-1] == "4"


@pytest.mark.slow
def test_what_a_scout_run_has_learnt_of_the_loader_is_shown_by_the_study_used_last(here: Path) -> None:
    (here / "train.py").write_text(TRAINING)
    command = ["--", sys.executable, "train.py", "--num-workers=1", "-b", "2"]
    probed = vtune("probe", "--steps", "20", "--set", "prefetch_factor=4", "--results", "out", *command, cwd=here)
    assert probed.code == 0, probed.stderr
    said = vtune_in_process("knobs", "--json", "--results", "out", cwd=here)
    prefetch = by_name(said)["prefetch_factor"]
    assert "going on with study" in said.stderr
    line = 1 + TRAINING.splitlines().index(next(line for line in TRAINING.splitlines() if "DataLoader(" in line))
    assert (
        prefetch["through"] == f"train.py:{line}"
        and prefetch["how"] == f"from inside, in the loader made at train.py:{line}"
    )
    assert (prefetch["current"], prefetch["values"]) == (2, [1, 2, 4, 8])
