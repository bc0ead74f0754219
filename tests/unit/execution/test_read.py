from pathlib import Path

from support.trial_writer import TrialWriter
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.machine import Machine
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.read import read_trial

MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=2.0, ram_bytes=2**30, shm_bytes=2**20)
WORKLOAD = Workload(
    command=("python", "train.py"), cwd=Path("."), config={"training": {"workers": 1, "train_batch_size": 2}}
)


def asked(folder: Path, settings: dict[str, Scalar]) -> object:
    writer = TrialWriter(folder)
    writer.hello()
    spec = TrialSpec(
        trial=1, origin="probe", reason="asked", settings=settings, effects=(), command=WORKLOAD.command, cwd=".",
        env={}, token="t",
    )  # fmt: skip
    outcome = TrialOutcome(ended_by="itself", exit_code=0, signal=None, seconds=1.0)
    return read_trial(Experiment(study="s", workload=WORKLOAD), MACHINE, spec, outcome, writer.paths).asked


def test_a_setting_that_the_training_has_anyway_was_not_turned(tmp_path: Path) -> None:
    assert asked(tmp_path / "same", {"workers": 1}) == {}
    assert asked(tmp_path / "other", {"workers": 1, "batch_size": 4}) == {"batch_size": 4}
    assert asked(tmp_path / "unknown", {"pin_memory": False}) == {"pin_memory": False}
