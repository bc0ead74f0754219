import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from support.studies import a_trial, write_study
from vtune.config.experiment_file import write_experiment
from vtune.config.load import experiment_from_command, load_experiment
from vtune.domain.experiment import Limit, Limits, Price
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.paths import StudyPaths
from vtune.reporting.adopt import how_to_adopt
from vtune.reporting.report_json import report_to_json
from vtune.reporting.study_report import read_study_report
from vtune.reporting.summary import summarize

CONFIG = """\
vtune:
  command: "{python} -c pass --config {config}"
  limits: {ram: 24GiB}
  price: EUR 3.67/h
training:
  workers: 1
  train_batch_size: 1
"""
FASTER = a_trial(2, 31.0, asked={"workers": 4, "batch_size": 2, "prefetch_factor": 4})


def a_study(tmp_path: Path, *records):
    paths = write_study(tmp_path, *records)
    paths.experiment.write_text(CONFIG)
    return paths


def test_a_config_is_told_as_the_part_to_write_and_the_rest_as_arguments_of_the_loader(tmp_path: Path) -> None:
    report = read_study_report(a_study(tmp_path, a_trial(1, 10.0, batch=1), FASTER))
    adoption = how_to_adopt(report)
    assert adoption is not None
    config, loader = adoption.places
    assert config[0] == f"# {tmp_path / 'demo' / 'experiment.yaml'}"
    assert yaml.safe_load("\n".join(config)) == {"training": {"workers": 4, "train_batch_size": 2}}
    assert loader == ("# the training's loader: where the script makes it", "DataLoader(..., prefetch_factor=4)")
    assert adoption.line.startswith("workers=4 batch_size=2 prefetch_factor=4: 3.1× ± 0.1, saves 2.41 h / 8.84 EUR")


def test_what_a_config_writes_in_its_own_words_is_told_in_them(tmp_path: Path) -> None:
    asked = {"precision": "bf16", "patch_size": 96, "threads": 2}
    paths = write_study(tmp_path, a_trial(1, 10.0), a_trial(2, 31.0, asked=asked))
    paths.experiment.write_text(
        CONFIG.replace("  workers: 1\n", "  precision: 32-true\n") + "data: {patch_size: [72, 136, 136]}\n"
    )
    adoption = how_to_adopt(read_study_report(paths))
    assert adoption is not None
    environment, config = sorted(adoption.places, key=len)
    assert environment == ("# the environment", "OMP_NUM_THREADS=2")
    assert yaml.safe_load("\n".join(config)) == {
        "training": {"precision": "bf16-mixed"}, "data": {"patch_size": [48, 96, 96]}
    }  # fmt: skip


def test_the_command_names_the_users_own_config_and_goes_on_with_the_same_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Path("my configs", "demo.yaml")
    config.parent.mkdir()
    config.write_text(CONFIG)
    paths = write_study(Path("results"), a_trial(1, 10.0, batch=1), FASTER)
    write_experiment(load_experiment(config), paths.experiment)
    adoption = how_to_adopt(read_study_report(paths))
    assert adoption is not None and adoption.places[0][0] == "# my configs/demo.yaml"
    turned = " --set workers=4 --set batch_size=2 --set prefetch_factor=4"
    assert adoption.command == f"vtune probe --config 'my configs/demo.yaml'{turned}"
    # Another study, another command or settings of its own would make it another question.
    for other in (
        CONFIG.replace("vtune:", "vtune:\n  study: other"),
        CONFIG.replace("pass", "...").replace("price:", "settings: {workers: 3}\n  price:"),
        "nothing: 1\n",
    ):
        config.write_text(other)
        adoption = how_to_adopt(read_study_report(paths))
        assert adoption is not None and adoption.command == f"vtune probe --study demo{turned}"


def test_a_flag_is_told_in_its_command_and_the_loader_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("pass")
    experiment = experiment_from_command(["python", "train.py", "--num-workers", "1", "--name", "a b;c"])
    trials = a_trial(1, 10.0), a_trial(2, 31.0, asked={"workers": 4, "pin_memory": True})
    paths = write_study(tmp_path / "my results", *trials)
    write_experiment(experiment, paths.experiment)
    question = fingerprint_of(load_experiment(paths.experiment))
    told = {"question": question, "train_loader": "k", "where": f"{tmp_path}/train.py:12", "settings": {}}
    paths.scout_result.write_text(json.dumps(told))
    adoption = how_to_adopt(read_study_report(paths))
    assert adoption is not None
    assert adoption.command == "vtune probe --study demo --results 'my results' --set workers=4 --set pin_memory=true"
    command, loader = adoption.places
    assert command[1].endswith(" train.py --num-workers 4 --name 'a b;c'")
    assert loader == ("# the training's loader: train.py:12", "DataLoader(..., pin_memory=True)")
    Path("train.py").write_text("changed")
    adoption = how_to_adopt(read_study_report(paths))
    assert adoption is not None and "train.py:12" not in str(adoption.places)


def test_without_the_training_here_the_loaders_own_names_are_told(tmp_path: Path) -> None:
    adoption = how_to_adopt(read_study_report(write_study(tmp_path, a_trial(1, 10.0), FASTER)))
    assert adoption is not None and "DataLoader(..., num_workers=4, prefetch_factor=4)" in adoption.places[0]


def test_a_journal_cannot_put_words_into_a_shell(tmp_path: Path) -> None:
    hostile = {"workers": "4; reboot", "batch_size": 10**30, "$(reboot)": 1, "pin_memory": True, "prefetch_factor": -3}
    best = replace(FASTER, settings=hostile, asked=hostile)
    adoption = how_to_adopt(read_study_report(write_study(tmp_path, a_trial(1, 10.0), best)))
    assert adoption is not None and "reboot" not in adoption.command and "prefetch" not in adoption.command
    assert adoption.command.endswith(" --set pin_memory=true") and "reboot" not in str(adoption.places)


def test_there_is_nothing_to_adopt_where_the_baseline_stays(tmp_path: Path) -> None:
    assert how_to_adopt(read_study_report(write_study(tmp_path, a_trial(1, 10.0)))) is None
    assert how_to_adopt(read_study_report(write_study(tmp_path / "none"))) is None


def test_limits_and_price_are_the_studys_unless_others_are_named(tmp_path: Path) -> None:
    paths = a_study(tmp_path, a_trial(1, 10.0, batch=1), FASTER)
    own = report_to_json(read_study_report(paths))
    assert own["choice"]["limits"]["ram"] == "24GiB" and own["choice"]["price"]["currency"] == "EUR"
    cost = own["best"]["projected"]["run_s"] / 3600 * 3.67
    assert abs(own["best"]["projected"]["cost"] - cost) < 1e-9
    named = read_study_report(
        paths, limits=Limits(ram=Limit(bytes=2**30, text="1GiB")), price=Price(per_hour=10.0, currency="$")
    )
    told = report_to_json(named)
    assert told["best"] is None and told["choice"]["limits"]["ram"] == "1GiB"
    assert told["choice"]["nearest_relaxation"]["over"] == [
        {"memory": "RAM", "needs_bytes": 3 * 2**30, "limit_bytes": 2**30, "projected": False, "when": None}
    ]


def test_a_share_of_ram_is_one_of_the_machine_that_was_measured(tmp_path: Path) -> None:
    paths = write_study(tmp_path, a_trial(1, 10.0))
    paths.machine.write_text(json.dumps(
        {"host": "h", "kernel": "6", "cpu_model": None, "cores": 2.0, "ram_bytes": 4 * 2**30, "shm_bytes": None}
    ))  # fmt: skip
    half = Limits(ram=Limit(fraction=0.5, text="50%"))
    assert read_study_report(paths, limits=half).choice.best is None
    for broken in ("{", "[]", '{"host": 1}', '{"cores": "two"}'):
        paths.machine.write_text(broken)
        assert read_study_report(paths, limits=half).choice.best is not None


def test_a_long_word_of_a_knob_of_the_users_own_is_pasted_whole(tmp_path: Path) -> None:
    word = "configs/augmentation/heavy elastic deformation of both axes.yaml"
    paths = write_study(tmp_path, a_trial(1, 10.0), a_trial(2, 31.0, asked={"aug": word}))
    own = "  knobs: {aug: {key: aug_config, values: [light.yaml, heavy.yaml]}}\ntraining:"
    paths.experiment.write_text(CONFIG.replace("training:", own) + "aug_config: light.yaml\n")
    adoption = how_to_adopt(read_study_report(paths))
    assert adoption is not None and shlex.split(adoption.command)[-1] == f"aug={word}"
    (place,) = adoption.places
    assert yaml.safe_load("\n".join(place)) == {"aug_config": word}


def test_a_winner_leads_on_to_apply_and_launch_by_commands_that_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = a_study(Path("results"), a_trial(1, 10.0, batch=1), FASTER)
    first, then, *_ = summarize(read_study_report(paths)).next
    assert first.startswith("vtune apply --study demo shows") and then.startswith("vtune launch --study demo runs")
    # A what-if stands in no study, and another folder has to be named.
    paths.experiment.write_text(CONFIG.replace("  limits: {ram: 24GiB}\n", ""))
    monkeypatch.chdir(paths.root)
    what_if = Limits(ram=Limit(bytes=2**40, text="1TiB"))
    elsewhere = StudyPaths(tmp_path / "results" / "demo")
    first, then, *_ = summarize(read_study_report(elsewhere, limits=what_if)).next
    where = f"--study demo --results {tmp_path / 'results'} --ram-limit 1TiB"
    assert first.startswith(f"vtune apply {where} shows") and then.startswith(f"vtune launch {where} runs")


def test_where_the_baseline_stays_nothing_is_applied_or_launched(tmp_path: Path) -> None:
    report = read_study_report(a_study(tmp_path, a_trial(1, 10.0), a_trial(2, 9.0, asked={"workers": 4})))
    assert not [line for line in summarize(report).next if "vtune apply" in line or "vtune launch" in line]
