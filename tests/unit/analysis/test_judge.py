"""A trial's record from what its folder says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter, observed, replay_loader
from vtune.analysis.judge import judge
from vtune.analysis.measure import Observed
from vtune.domain.events import Fact, ProcessSample, TelemetrySample
from vtune.domain.experiment import Limit, PlannedRun, Window
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialOutcome, TrialSpec, TrialStatus

MIB = 2**20
MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=16 * 2**30, shm_bytes=8 * 2**30)
SPEC = TrialSpec(
    trial=1, origin="asked", reason="", settings={}, effects=(), command=("python",), cwd="/", env={}, token="t"
)
KILLED = TrialOutcome(ended_by="itself", exit_code=None, signal=9, seconds=10.0)


def look(t_s: float, available_mib: int | None, *, living: bool = True) -> TelemetrySample:
    training = ProcessSample(pid=7, ppid=1, name="python", rss_bytes=MIB, cpu_s=1.0)
    return TelemetrySample(
        t_s=t_s,
        processes=(training,) if living else (),
        ram_bytes=None,
        shm_used_bytes=None,
        others_cores=None,
        ram_available_bytes=None if available_mib is None else available_mib * MIB,
    )


def judged(*telemetry: TelemetrySample) -> TrialRecord:
    observed = Observed(roles=None, loaded=(), delivered=(), facts=(), telemetry=telemetry, started_s=0.0)
    return judge(
        SPEC, KILLED, observed, pythons=1, backwards=0, last_words="", window=Window(), planned=PlannedRun(),
        price=None, machine=MACHINE, current={}, gpu_validated=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("telemetry", "expected"),
    [
        # The last look is after its death, which gave back all that it had.
        ((look(9.0, 500), look(9.2, 64), look(9.4, 9000, living=False)), TrialStatus.OUT_OF_RAM),
        ((look(8.0, 64), look(9.4, 700), look(9.6, None), look(12.0, 9000, living=False)), TrialStatus.OUT_OF_RAM),
        ((look(3.0, 64), look(9.0, 9000), look(9.2, 9000, living=False)), TrialStatus.CRASHED),
        ((look(9.0, 9000), look(9.2, 64, living=False)), TrialStatus.CRASHED),
        ((), TrialStatus.CRASHED),
    ],
)
def test_the_ram_that_was_left_is_that_of_the_last_moments_in_which_the_training_lived(
    telemetry: tuple[TelemetrySample, ...], expected: TrialStatus
) -> None:
    record = judged(*telemetry)
    assert record.status is expected, record.detail


@pytest.mark.parametrize("ground", [True, False])
def test_a_precise_window_is_advised_only_after_another_one(tmp_path: Path, ground: bool) -> None:
    writer = TrialWriter(tmp_path)
    replay_loader(writer, steps=60, workers=2, prefetch=2, load_s=0.2, compute_s=0.1)
    writer.fact("data_set_grows", 5000, attribute="cache")
    record = judge(
        SPEC, replace(KILLED, ended_by="window", exit_code=0, signal=None), observed(writer), pythons=1, backwards=0,
        last_words="", window=Window(steps=40, ground=ground), planned=PlannedRun(), price=None, machine=MACHINE,
        current={}, gpu_validated=False,
    )  # fmt: skip
    assert record.status is TrialStatus.COMPLETED and not record.measurement.steady
    assert any("--precise" in line for line in record.diagnosis.next) is not ground


def test_out_of_vram_is_recorded_with_the_limit_that_it_died_of() -> None:
    held = {"device": 0, "uuid": "aa", "bytes": 8 * 2**30, "total": 80 * 2**30, "by": "limit", "sharing": 1}
    memory = {"device": 0, "reserved": 7 * 2**30, "outside": 2**30, "ooms": 1}
    facts = [Fact(pid=7, t_s=1.0, name=name, data=data) for name, data in (("vram_limit", held), ("memory", memory))]
    observed = Observed(roles=None, loaded=(), delivered=(), facts=facts, telemetry=(), started_s=0.0)
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    record = judge(
        SPEC, replace(KILLED, exit_code=1, signal=None), observed, pythons=1, backwards=0, last_words=words,
        window=Window(), planned=PlannedRun(), price=None, machine=MACHINE, current={}, gpu_validated=False,
        vram_limit=Limit(fraction=0.1, text="10%"),
    )  # fmt: skip
    assert record.status is TrialStatus.OUT_OF_VRAM, record.detail
    assert record.evidence["vram_guard"] == {"limit_bytes": 8 * 2**30, "device_bytes": 80 * 2**30}
