import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.read import read_trial
from vtune.journal import validated

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=2.0, ram_bytes=2**30, shm_bytes=2**20)
WITH_A_GPU = replace(MACHINE, gpus=("A100",), gpu_driver="580")
WORKLOAD = Workload(
    command=("python", "train.py"), cwd=Path("."), config={"training": {"workers": 1, "train_batch_size": 2}}
)


def written(folder: Path) -> TrialWriter:
    writer = TrialWriter(folder)
    writer.hello()
    return writer


def read(writer: TrialWriter, settings: dict[str, Scalar] | None = None, machine: Machine = MACHINE) -> TrialRecord:
    spec = TrialSpec(
        trial=1, origin="probe", reason="asked", settings=settings or {}, effects=(), command=WORKLOAD.command,
        cwd=".", env={}, token="t",
    )  # fmt: skip
    outcome = TrialOutcome(ended_by="itself", exit_code=0, signal=None, seconds=1.0)
    return read_trial(Experiment(study="s", workload=WORKLOAD), machine, spec, outcome, writer.paths)


def test_a_setting_that_the_training_has_anyway_was_not_turned(tmp_path: Path) -> None:
    writer = written(tmp_path)
    assert read(writer, {"workers": 1}).asked == {}
    assert read(writer, {"workers": 1, "batch_size": 4}).asked == {"batch_size": 4}
    assert read(writer, {"pin_memory": False}).asked == {"pin_memory": False}


def test_a_gpu_is_called_not_validated_until_its_self_test_has_passed_with_this_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    writer = written(tmp_path / "trial")
    assert not any("not validated" in note for note in read(writer, machine=WITH_A_GPU).notes)
    writer.paths.gpus.write_text(json.dumps([{"index": 0, "uuid": "GPU-aa", "name": "A100"}]))
    validated.remember(["A100"], "580", torch="1.0-of-long-ago", vtune="0", when="2026-01-01")
    assert any("not validated" in note for note in read(writer, machine=WITH_A_GPU).notes)
    validated.remember(["A100"], "580", torch="2.13.0", vtune="0", when="2026-01-01")
    assert not any("not validated" in note for note in read(writer, machine=WITH_A_GPU).notes)


def test_what_the_hooks_could_not_see_reaches_the_reader(tmp_path: Path) -> None:
    writer = written(tmp_path)
    writer.fact("unknown", what="stages", because="the training is compiled")
    assert "not seen, stages: the training is compiled" in read(writer).notes
