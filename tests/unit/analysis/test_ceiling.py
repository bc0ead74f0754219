"""What a training fed from memory has told, read from its files: rates by size, and why the sizes end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.trial_writer import TrialWriter
from vtune.analysis.ceiling import ended, fastest_rung, measure_ceiling
from vtune.analysis.measure import Observed
from vtune.analysis.roles import find_roles
from vtune.domain.events import GpuSample, TelemetrySample
from vtune.domain.trial import TrialOutcome, TrialStatus
from vtune.journal.step_log import StepLog

WINDOW = TrialOutcome(ended_by="window", exit_code=0, signal=None, seconds=30.0)
CRASH = TrialOutcome(ended_by="itself", exit_code=1, signal=None, seconds=30.0)


class Ceiling:
    """Writes such a trial: each step waits 20 ms for its copy and takes what the test says."""

    def __init__(self, root: Path, *, accumulate: int = 1, new_pass_each: int = 0, workers: int = 2) -> None:
        self.writer = TrialWriter(root)
        self.writer.hello()
        self.writer.loader()
        self.writer.begin_pass(workers=workers, batch=4)
        self.now, self.passes, self.batches = 0.0, 1, 0
        self.accumulate, self.new_pass_each = accumulate, new_pass_each

    def drain(self, **told: object) -> None:
        self.writer.fact("ceiling_drain", **{"batches": 80, "stock": 4, "because": "enough", **told})

    def begin(self, number: int, samples: int) -> None:
        self.writer.fact("ceiling_rung", t=self.now, rung=number, samples=samples)

    def rung(self, number: int, samples: int, batch_s: float, steps: int = 10, **told: object) -> None:
        self.begin(number, samples)
        begun = self.now
        for _ in range(steps):
            for part in range(self.accumulate):
                self.batch(samples, batch_s, steps=part == self.accumulate - 1)
        told = {"device": 0.0, "restarts": 0.0, "vram_peak": None, "ram_peak": 2**20 * samples, **told}
        self.writer.fact(
            "ceiling_rung_end", rung=number, samples=samples, steps=steps, batches=steps * self.accumulate,
            begun=begun, ended=self.now, **told,
        )  # fmt: skip

    def batch(self, samples: int, batch_s: float, *, steps: bool = True) -> None:
        if self.new_pass_each and self.batches and self.batches % self.new_pass_each == 0:
            self.now += 0.5  # a validation at the end of the epoch
            self.writer.begin_pass(number=self.passes, batch=4, begun=self.now)
            self.passes += 1
            self.now += 0.1
        self.batches += 1
        asked, self.now = self.now, self.now + 0.02
        self.writer.deliver(asked, self.now, samples=samples, pass_number=self.passes - 1)
        self.now += batch_s
        if steps:
            self.writer.step(self.now)

    def done(self, because: str, **told: object) -> None:
        self.batch(4, 0.01)
        self.writer.fact("ceiling_done", t=self.now, because=because, **told)

    @property
    def observed(self) -> Observed:
        log = StepLog(self.writer.paths)
        while log.refresh():
            pass
        return Observed(
            roles=find_roles(log.steps, log.delivered, log.facts),
            loaded=log.loaded,
            delivered=log.delivered,
            facts=log.facts,
            telemetry=(),
            started_s=0.0,
        )

    def judged(self, outcome: TrialOutcome, status: TrialStatus, detail: str | None = None):
        observed = self.observed
        return ended(measure_ceiling(observed), observed, outcome, status, detail)


def test_waiting_for_the_copy_is_no_part_of_computing(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.drain(batches_measured=76, samples=304, seconds=2.0)
    trial.rung(0, 4, 0.1)
    trial.rung(1, 8, 0.16)
    trial.done("the rate has not grown for 3 sizes")
    found = trial.judged(WINDOW, TrialStatus.COMPLETED)
    ceiling = found.measured.ceiling
    assert found.status is TrialStatus.COMPLETED and found.measured.samples_per_s is None
    assert ceiling.compute_samples_per_s == found.measured.compute_samples_per_s == pytest.approx(40)
    assert ceiling.loader_samples_per_s == pytest.approx(152)
    assert [(r.batch_size, r.samples_per_s, r.step_s) for r in ceiling.ladder] == [
        (4, pytest.approx(40), pytest.approx(0.1)), (8, pytest.approx(50), pytest.approx(0.16)),
    ]  # fmt: skip
    assert fastest_rung(ceiling).batch_size == ceiling.largest_batch == 8
    assert ceiling.ladder[1].ram_peak_bytes == 8 * 2**20
    assert "the rate has not grown" in found.diagnosis.why[-1] and "40 samples/s" in found.diagnosis.verdict


def test_a_step_of_several_batches_takes_all_of_them(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path, accumulate=4)
    trial.rung(0, 4, 0.1)
    trial.done("enough")
    [rung] = trial.judged(WINDOW, TrialStatus.COMPLETED).measured.ceiling.ladder
    assert rung.step_s == pytest.approx(0.4) and rung.samples_per_s == pytest.approx(40)


def test_what_happens_between_epochs_is_no_steps(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path, new_pass_each=4)
    trial.rung(0, 4, 0.1, steps=20)
    trial.done("enough")
    assert trial.judged(WINDOW, TrialStatus.COMPLETED).measured.compute_samples_per_s == pytest.approx(40)


def test_where_each_step_has_an_iterator_of_its_own_its_making_and_ending_are_the_loaders(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path, new_pass_each=1)
    # The half second between two batches is what ending the workers takes here.
    trial.rung(0, 4, 0.1, steps=10, restarts=9 * 0.5)
    trial.done("enough")
    assert trial.judged(WINDOW, TrialStatus.COMPLETED).measured.compute_samples_per_s == pytest.approx(40)


def test_the_time_in_which_the_device_was_waited_for_is_computing(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1, device=10 * 0.1)
    trial.done("enough")
    assert trial.judged(WINDOW, TrialStatus.COMPLETED).measured.compute_samples_per_s == pytest.approx(20)


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [
        (CRASH, TrialStatus.OUT_OF_VRAM, "exit code 1: torch.OutOfMemoryError"),
        (replace(CRASH, ended_by="limit"), TrialStatus.OUT_OF_RAM, "stopped by vtune: over the limit of 2 GiB"),
        (replace(CRASH, exit_code=None, signal=9), TrialStatus.CRASHED, "the training was killed by SIGKILL"),
    ],
)
def test_running_out_of_memory_is_the_answer_and_no_failure(
    tmp_path: Path, outcome: TrialOutcome, status: TrialStatus, detail: str
) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1)
    trial.begin(1, 8)
    found = trial.judged(outcome, status, detail)
    ceiling = found.measured.ceiling
    assert found.status is TrialStatus.COMPLETED and found.detail is None
    assert [(rung.batch_size, rung.fits) for rung in ceiling.ladder] == [(4, True), (8, False)]
    assert ceiling.largest_batch == 4 and ceiling.ended_because == f"batch 8 does not fit: {detail}"


@pytest.mark.parametrize(
    ("outcome", "status", "because"),
    [
        (CRASH, TrialStatus.CRASHED, "ValueError: expected 4, at batch 8"),
        (replace(WINDOW, ended_by="trial_time"), TrialStatus.COMPLETED, "the trial time was up at batch 8"),
        (replace(WINDOW, ended_by="itself"), TrialStatus.COMPLETED, "the training ended by itself at batch 8"),
        (replace(WINDOW, ended_by="interrupt"), TrialStatus.INTERRUPTED, "it was ended by hand at batch 8"),
        (replace(WINDOW, ended_by="hang"), TrialStatus.HUNG, "ValueError: expected 4, at batch 8"),
    ],
)
def test_another_end_says_nothing_of_the_size_that_was_tried(
    tmp_path: Path, outcome: TrialOutcome, status: TrialStatus, because: str
) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1)
    trial.begin(1, 8)
    ceiling = trial.judged(outcome, status, "ValueError: expected 4").measured.ceiling
    assert [rung.batch_size for rung in ceiling.ladder] == [4] and ceiling.ended_because == because


def test_steps_that_stop_coming_are_a_size_that_does_not_fit(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1)
    trial.begin(1, 8)
    trial.done("the training made no step any more", failed=True)
    ladder = trial.judged(WINDOW, TrialStatus.COMPLETED).measured.ceiling.ladder
    assert [(rung.batch_size, rung.fits) for rung in ladder] == [(4, True), (8, False)]


def test_a_loader_that_was_never_met_again_is_not_observed(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    for _ in range(10):
        trial.batch(4, 0.1)
    found = trial.judged(WINDOW, TrialStatus.COMPLETED)
    assert found.status is TrialStatus.NOT_OBSERVED and "not met again" in (found.detail or "")
    assert "was not found" in found.diagnosis.verdict


def test_an_interrupted_search_stays_interrupted_with_what_it_learnt(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1)
    found = trial.judged(replace(WINDOW, ended_by="interrupt"), TrialStatus.INTERRUPTED, "ended by hand")
    assert found.status is TrialStatus.INTERRUPTED and found.measured.ceiling.largest_batch == 4


def test_a_loader_drained_of_its_stock_alone_has_no_rate_and_the_note_says_why(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.drain(batches=4, because="exhausted", batches_measured=0, samples=0, seconds=0.0)
    trial.rung(0, 4, 0.1)
    trial.done("enough")
    found = trial.judged(WINDOW, TrialStatus.COMPLETED)
    assert found.measured.loader_samples_per_s is None
    assert "its epoch was over after 4 batches" in found.notes[0]


def test_the_drivers_word_stands_in_where_the_allocator_does_not_count(tmp_path: Path) -> None:
    trial = Ceiling(tmp_path)
    trial.rung(0, 4, 0.1)
    trial.rung(1, 8, 0.1, vram_peak=7)
    trial.done("enough")
    looks = [(0.5, 100), (0.7, 300), (1.8, 900)]
    telemetry = [
        TelemetrySample(
            t_s=t, processes=(), ram_bytes=None, shm_used_bytes=None, others_cores=None, ram_available_bytes=None,
            gpus=(GpuSample(uuid="GPU-1", own_bytes=own),),
        )
        for t, own in looks
    ]  # fmt: skip
    measured = measure_ceiling(replace(trial.observed, telemetry=telemetry))
    assert [rung.vram_peak_bytes for rung in measured.ceiling.ladder] == [300, 7]
