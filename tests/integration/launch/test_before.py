"""What has changed since a trial, or has no room now, is named before anything is started."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from support.cli import Said, quiet_env, vtune, vtune_in_process
from support.launches import CONFIG, SCRIPT, Study, measured
from support.others import disturbed
from vtune.analysis.repeated_words import what_repeats
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialStatus
from vtune.journal.journal import Journal

Make = Callable[..., Study]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training and a study of one real trial."""
    folder = tmp_path_factory.mktemp("tuned")
    shutil.copy(SCRIPT, folder / "train.py")
    (folder / "images" / "sub").mkdir(parents=True)
    (folder / "images" / "b.tif").write_bytes(b"image")
    section = {"command": "{python} train.py --config {config}", "resume": "--resume"}
    config = {
        **CONFIG,
        "steps": 2000,
        "data_dir": "images",
        "load_s": 0.0005,
        "step_s": 0.005,
        "index": "images/index.cache",
    }
    (folder / "demo.yaml").write_text(yaml.safe_dump({"vtune": section, **config}))
    said = vtune("probe", "--config", "demo.yaml", "--steps", "20", cwd=folder)
    assert said.code == 0, said.stderr
    return folder


def planned(folder: Path, *more: str) -> Said:
    return vtune_in_process("launch", "--config", "demo.yaml", "--dry-run", "--json", *more, cwd=folder)


def copied(tuned: Path, folder: Path) -> Path:
    """In place of the original, whose paths a trial has recorded."""
    kept = folder / "kept"
    shutil.copytree(tuned, kept, symlinks=True)
    return kept


def restore(tuned: Path, kept: Path) -> None:
    shutil.rmtree(tuned)
    shutil.copytree(kept, tuned, symlinks=True)


@pytest.fixture
def here(tuned: Path, tmp_path: Path) -> object:
    kept = copied(tuned, tmp_path)
    yield tuned
    restore(tuned, kept)


def test_nothing_has_changed_since_a_trial_of_a_moment_ago(here: Path) -> None:
    told = planned(here).json
    assert "error" not in told and told["trial"] == 1 and told["promised_samples_per_s"] is not None


def change_script(folder: Path) -> str:
    with open(folder / "train.py", "a") as file:
        file.write("\nprint('more')\n")
    return "the script"


def change_config(folder: Path) -> str:
    text = (folder / "demo.yaml").read_text()
    (folder / "demo.yaml").write_text(text.replace("step_s: 0.005", "step_s: 0.006"))
    return "the config: step_s"


def change_command(folder: Path) -> str:
    text = (folder / "demo.yaml").read_text()
    (folder / "demo.yaml").write_text(text.replace("{config}", "{config} --resume"))
    return "the command"


def add_data(folder: Path) -> str:
    (folder / "images" / "sub" / "new.tif").touch()
    return "the data: images"


def change_data(folder: Path) -> str:
    # In place: neither its folder nor its size tells.
    with open(folder / "images" / "b.tif", "r+b") as file:
        file.write(b"other")
    return "the data: images"


def remove_data(folder: Path) -> str:
    shutil.rmtree(folder / "images")
    return "the data: images"


def change_torch(folder: Path) -> str:
    for facts in (folder / "results" / "demo" / "trials" / "0001").glob("steps-*.jsonl"):
        lines = [json.loads(line) for line in facts.read_text().splitlines()]
        for fact in lines:
            if fact["fact"] == "hello":
                fact["torch"] = "2.0.0"
        facts.write_text("".join(json.dumps(fact) + "\n" for fact in lines))
    return "torch: was 2.0.0, is "


def change_driver(folder: Path) -> str:
    machine = folder / "results" / "demo" / "machine.json"
    machine.write_text(json.dumps({**json.loads(machine.read_text()), "gpu_driver": "470.1"}))
    return "the machine: gpu_driver"


@pytest.mark.parametrize(
    "change",
    [
        change_script,
        change_config,
        change_command,
        add_data,
        change_data,
        remove_data,
        change_torch,
        change_driver,
    ],
)
def test_what_has_changed_is_named(here: Path, change: Callable[[Path], str]) -> None:
    named = change(here)
    assert named in planned(here).json["error"]


def test_a_run_that_was_made_longer_is_the_one_that_was_tuned(here: Path) -> None:
    text = (here / "demo.yaml").read_text()
    (here / "demo.yaml").write_text(text.replace("\nsteps: 2000", "\nsteps: 5000\nmax_epochs: 7"))
    said = planned(here)
    assert "error" not in said.json and "changed since trial 1, by max_epochs, steps" in said.stderr


@pytest.mark.slow
def test_what_the_studys_own_runs_write_beside_the_data_has_not_changed_them(here: Path) -> None:
    assert not (here / "images" / "index.cache").exists()
    said = vtune("probe", "--config", "demo.yaml", "--steps", "20", "--set", "workers=2", "--allow-writes", cwd=here)
    assert said.code == 0, said.stderr
    assert (here / "images" / "index.cache").exists()
    assert "error" not in planned(here, "--trial", "1").json
    change_data(here)
    assert "the data: images" in planned(here, "--trial", "1").json["error"]


def test_a_launch_of_what_has_changed_is_refused_and_forced_only_when_asked(here: Path) -> None:
    change_config(here)
    said = vtune("launch", "--config", "demo.yaml", cwd=here)
    assert said.code == 2 and "step_s" in said.stderr and "--force" in said.stderr
    assert not (here / "results" / "demo" / "launches").exists()
    assert "error" not in planned(here, "--force").json


def test_what_has_no_room_is_refused_as_this_machines_lack(a_study: Make) -> None:
    study = a_study(measured(1, 60.0), measured(2, 80.0, workers=2))
    said = study.launch("--trial", "2", "--ram-limit", "150MiB")
    assert said.code == 3 and "it needs 200 MiB of RAM" in said.stderr
    assert not study.paths.launches.exists()


@pytest.mark.slow
def test_a_trial_that_is_not_there_or_has_no_rate_is_refused(a_study: Make) -> None:
    study = a_study()
    Journal(study.paths.journal).append(replace(measured(2, 50.0), origin="launch", reason="launch 1, of trial 1"))
    assert study.launch("--trial", "9").code == 2
    said = study.launch("--trial", "2")
    assert said.code == 2 and "a launch itself" in said.stderr
    said = study.launch("--trial", "1", "--best")
    assert said.code == 2 and "--best" in said.stderr


def test_where_no_trial_fits_the_limits_there_is_nothing_to_launch(a_study: Make) -> None:
    said = a_study(measured(1, 60.0)).launch("--vram-limit", "1GiB")
    assert said.code == 4 and "study demo has no trial to choose: no trial fits the limits" in said.stderr


def test_what_a_busy_machine_measured_is_not_said_to_pass_a_limit(a_study: Make) -> None:
    said = a_study(disturbed(measured(1, 60.0))).launch()
    assert said.code == 3 and "trial 1 ran on a busy machine" in said.stderr and "limit" not in said.stderr


def test_a_trial_whose_data_repeated_is_not_said_to_have_ignored_its_settings(a_study: Make) -> None:
    found = Repeated(reason=Repeats.SAME_NUMBERS, workers=2, dataset="Crops", generator="self.rng", where="crops.py:9")
    twice = measured(2, 90.0, workers=2)
    twice = replace(twice, status=TrialStatus.INVALID, detail=what_repeats(found))
    twice = replace(twice, measurement=replace(twice.measurement, repeated=found))
    said = a_study(measured(1, 60.0), twice).launch("--trial", "2")
    assert said.code == 2 and "trial 2 is invalid: 2 workers of the loader draw the same" in said.stderr
    assert "did not run with its settings" not in said.stderr and "crops.py:9" in said.stderr.partition("hint:")[2]


def test_what_a_dry_run_goes_on_with_is_told_before_its_plan(a_study: Make) -> None:
    study = a_study()
    command = [sys.executable, "-m", "vtune", "launch", "--dry-run"]
    said = subprocess.run(
        command, cwd=study.folder, env=quiet_env(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=True,
    ).stdout  # fmt: skip
    assert said.startswith("going on with study demo") and "train.py" in said


def test_iterations_are_told_and_rescaled_when_the_batch_grows(a_study: Make) -> None:
    study = a_study(
        measured(1, 60.0), measured(2, 80.0, batch_size=4),
        training={"iterations_per_epoch": 100, "max_epochs": 2},
    )  # fmt: skip
    told = study.launch("--trial", "2", "--dry-run", "--json").json
    assert any("--rescale-iterations makes it 50" in note for note in told["notes"])
    rescaled = study.launch("--trial", "2", "--dry-run", "--json", "--rescale-iterations").json
    assert any("rescaled to 50" in note for note in rescaled["notes"])
    # Nothing is to be rescaled there.
    assert study.launch("--trial", "1", "--dry-run", "--rescale-iterations").code == 0


@pytest.mark.slow
def test_what_apply_wrote_into_the_config_is_no_change_of_what_was_tuned(here: Path) -> None:
    turned = ("--set", "workers=2", "--set", "persistent_workers=true")
    said = vtune("probe", "--config", "demo.yaml", "--steps", "20", *turned, cwd=here)
    assert said.code == 0, said.stderr
    before = vtune("apply", "--config", "demo.yaml", "--trial", "2", "--json", cwd=here).json["python"]
    assert [line["option"] for line in before] == ["persistent_workers"] and before[0]["line"] is not None
    assert vtune("apply", "--config", "demo.yaml", "--trial", "2", "--write", cwd=here).code == 0
    assert yaml.safe_load((here / "demo.yaml").read_text())["workers"] == 2
    told = planned(here, "--trial", "2").json
    assert "error" not in told and "persistent_workers" in told["by_hook"][0]
    # And its line of the script is still known.
    assert vtune("apply", "--config", "demo.yaml", "--trial", "2", "--json", cwd=here).json["python"] == before


@pytest.mark.slow
def test_settings_of_a_loader_that_is_not_known_any_more_are_measured_again_all_of_them(here: Path) -> None:
    turned = ("--set", "workers=2", "--set", "persistent_workers=true")
    assert vtune("probe", "--config", "demo.yaml", "--steps", "20", *turned, cwd=here).code == 0
    change_script(here)
    said = vtune("launch", "--config", "demo.yaml", "--trial", "2", cwd=here)
    assert said.code == 2 and "--set workers=2 --set persistent_workers=true measures it anew" in said.stderr
