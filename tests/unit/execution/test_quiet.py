"""The wait for quiet before a trial, on a clock and a machine that the test sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.made_up import MACHINE
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.others import OtherProgram
from vtune.domain.progress import WaitingForQuiet
from vtune.errors import MachineError
from vtune.execution.quiet import BUSY_WAIT_S, LOOK_S, TOLD_EVERY_S, Quiet, cores_wanted, wait_for_quiet
from vtune.telemetry.other_programs import IGNORE, VARIABLE, Load


class Machine:
    """Others that come and go: from which second on, how many cores they use."""

    def __init__(self, *levels: tuple[float, float]) -> None:
        self.now_s, self._levels, self.looks = 0.0, levels, 0

    def look(self, over_s: float) -> Load:
        self.now_s, self.looks = self.now_s + over_s, self.looks + 1
        used = [cores for since_s, cores in self._levels if since_s < self.now_s][-1]
        program = OtherProgram(pid=412, name="ffmpeg", cores=used)
        return Load(others_cores=used, programs=(program,) if used else ())

    def quiet(self, **fields: object) -> Quiet:
        return replace(Quiet(look=self.look, clock=lambda: self.now_s), **fields)


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


def waited(machine: Machine, *, cores: float = 2.0, wanted: float = 2.0, **fields: object) -> list[WaitingForQuiet]:
    told: list[WaitingForQuiet] = []
    wait_for_quiet(machine.quiet(**fields), cores, wanted, told.append)
    return told


def test_a_quiet_machine_costs_one_look() -> None:
    machine = Machine((0.0, 0.1))
    assert waited(machine) == [] and machine.looks == 1 and machine.now_s == LOOK_S


def test_a_short_burst_costs_one_look_more_and_is_told() -> None:
    machine = Machine((0.0, 1.9), (1.0, 0.0))
    [told] = waited(machine)
    assert told.others.used == 1.9 and told.left_s == BUSY_WAIT_S - LOOK_S and machine.looks == 2


def test_who_stays_is_named_after_the_bound_and_nothing_was_started() -> None:
    machine = Machine((0.0, 1.9))
    with pytest.raises(MachineError) as refused:
        waited(machine)
    assert refused.value.exit_code == 3 and refused.value.hint.startswith("stop the other programs")
    assert "--busy-wait" in refused.value.hint and "--anyway" in refused.value.hint
    assert refused.value.message == "Cannot measure: other programs use 1.9 of 2 cores (pid 412 ffmpeg: 1.9)"
    assert machine.now_s == pytest.approx(BUSY_WAIT_S, abs=LOOK_S)


def test_one_of_two_that_leaves_during_the_wait_leaves_a_busy_machine() -> None:
    with pytest.raises(MachineError, match="use 1.0 of 2 cores"):
        waited(Machine((0.0, 1.9), (30.0, 1.0)))


def test_the_bound_can_be_shortened() -> None:
    machine = Machine((0.0, 1.9))
    with pytest.raises(MachineError):
        waited(machine, wait_s=2.0)
    assert machine.now_s == 2.0


def test_a_wait_is_told_now_and_then_and_not_at_every_look() -> None:
    told = waited(Machine((0.0, 1.9), (50.0, 0.0)))
    assert [one.left_s for one in told] == [BUSY_WAIT_S - LOOK_S - n * TOLD_EVERY_S for n in range(4)]


def test_with_anyway_and_where_they_are_ignored_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine((0.0, 1.9))
    assert waited(machine, anyway=True) == [] and machine.looks == 0
    monkeypatch.setenv(VARIABLE, IGNORE)
    assert waited(machine) == [] and machine.looks == 0


def test_cores_that_the_training_leaves_idle_are_nobodys_loss() -> None:
    assert waited(Machine((0.0, 1.0)), cores=64.0, wanted=8.0) == []
    assert waited(Machine((0.0, 50.0)), cores=64.0, wanted=8.0) == []
    with pytest.raises(MachineError):
        waited(Machine((0.0, 60.0)), cores=64.0, wanted=8.0, wait_s=2.0)


@pytest.mark.parametrize(
    ("cores", "gpus", "workers", "wanted"),
    [
        (2.0, (), 4, 2.0),
        (64.0, (), 4, 8.0),
        (64.0, ("A100",), 4, 6.0),
        (64.0, ("A100",), 30, 32.0),
        (64.0, ("A100",), None, 8.0),
        (4.0, ("A100",), 1, 3.0),
    ],
)
def test_a_training_uses_its_workers_cores_and_some_of_its_own(
    cores: float, gpus: tuple[str, ...], workers: int | None, wanted: float
) -> None:
    experiment = Experiment(study="s", workload=Workload(command=("python", "train.py"), cwd=Path(".")))
    settings = {"workers": workers} if workers is not None else {}
    machine = replace(MACHINE, cores=cores, gpus=gpus)
    assert cores_wanted(experiment, settings, machine) == wanted
