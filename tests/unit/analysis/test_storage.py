from dataclasses import replace
from pathlib import Path

import pytest

from support.records import a_record
from support.trial_writer import PID, TrialWriter
from vtune.analysis.measure import Observed, measure
from vtune.analysis.roles import find_roles
from vtune.analysis.storage import storage_lines
from vtune.domain.events import ProcessSample, TelemetrySample
from vtune.domain.experiment import PlannedRun
from vtune.domain.machine_use import ProcessUse
from vtune.domain.record import Measurement
from vtune.journal.step_log import StepLog

MB = 10**6


def process(pid: int, t: float, *, ppid: int = PID, cpu: float = 0.0, queued: float | None = 0.0,
            requested: int | None = 0, read: int | None = 0) -> ProcessSample:  # fmt: skip
    return ProcessSample(
        pid=pid, ppid=1 if pid == PID else ppid, name="python", rss_bytes=2**20, cpu_s=cpu * t,
        queued_s=None if queued is None else queued * t,
        requested_bytes=None if requested is None else int(requested * t),
        read_bytes=None if read is None else int(read * t),
    )  # fmt: skip


def look(t: float, *processes: ProcessSample, cached: int | None = None) -> TelemetrySample:
    return TelemetrySample(
        t_s=t, processes=processes, ram_bytes=None, shm_used_bytes=None, others_cores=None, ram_available_bytes=None,
        page_cache_bytes=cached,
    )  # fmt: skip


def training(folder: Path, *, workers: int = 2, steps: int = 60, files: int | None = 0) -> TrialWriter:
    """One step a second, from 1 s on; each worker makes every other batch of two samples. Its second is looked at."""
    writer = TrialWriter(folder)
    writer.hello()
    writer.loader()
    pids = writer.begin_pass(workers=workers)
    for j in range(steps):
        if pids:
            told = files + 1 if files is not None and workers <= j < 2 * workers else 0
            writer.record(1, pids[j % workers], 0, j % workers, index=j, a=j, b=j + 0.5, c=0.1, n1=2, n2=told)
        writer.deliver(j, j + 0.6, j)
        writer.step(j + 1.0)
    return writer


def measured(writer: TrialWriter, telemetry: list[TelemetrySample]) -> Measurement:
    log = StepLog(writer.paths)
    log.refresh()
    roles = find_roles(log.steps, log.delivered, log.facts)
    observed = Observed(
        roles=roles, loaded=log.loaded, delivered=log.delivered, facts=log.facts, telemetry=telemetry, started_s=0.0
    )
    return measure(observed, PlannedRun(), None)


def steadily(seconds: int = 60, **of_workers: float) -> list[TelemetrySample]:
    workers = of_workers
    return [
        look(
            t, process(PID, t, cpu=0.9, queued=0.02), process(5000, t, **workers), process(5001, t, **workers), cached=t
        )
        for t in range(seconds)
    ]


def test_shares_and_rates_are_those_of_the_window(tmp_path: Path) -> None:
    found = measured(training(tmp_path), steadily(cpu=0.5, queued=0.25, requested=20 * MB, read=15 * MB))
    main, first, second = found.processes
    assert (main.role, first.role, second.role) == ("main", "worker 0", "worker 1")
    assert (main.cpu_fraction, main.queued_fraction) == (pytest.approx(0.9), pytest.approx(0.02))
    assert (first.cpu_fraction, first.queued_fraction) == (pytest.approx(0.5), pytest.approx(0.25))
    assert (second.requested_bytes_per_s, second.read_bytes_per_s) == (20 * MB, 15 * MB)
    assert (found.cold_fraction, found.cache) == (pytest.approx(0.75), "mixed")
    assert found.page_cache_bytes == 59


@pytest.mark.parametrize(
    ("read", "cold", "cache"),
    [
        (0, 0.0, "warm"),
        (0.8 * MB, 0.04, "warm"),
        (10 * MB, 0.5, "mixed"),
        (19 * MB, 0.95, "cold"),
        (30 * MB, 1.0, "cold"),
    ],
)
def test_what_came_from_the_device_tells_warm_from_cold(tmp_path: Path, read: float, cold: float, cache: str) -> None:
    found = measured(training(tmp_path), steadily(requested=20 * MB, read=read))
    assert (found.cold_fraction, found.cache) == (pytest.approx(cold), cache)


@pytest.mark.parametrize(
    ("of_workers", "because"),
    [
        ({"requested": 0, "read": 0}, "do not come by read()"),  # in memory, or mapped and warm, or on a network mount
        ({"requested": 200, "read": 0}, "do not come by read()"),  # indices through a pipe
        ({"requested": 200, "read": 50 * MB}, "do not come by read()"),  # mapped and cold
        ({"requested": 5 * MB, "read": 50 * MB}, "far more than read() asks for"),
        ({"requested": 20 * MB, "read": None}, "network mounts"),  # not counted on this mount
        ({"requested": None, "read": None}, "/proc/PID/io"),
    ],
    ids=str,
)
def test_where_read_is_not_how_the_data_come_nothing_is_claimed_and_why_is_said(
    tmp_path: Path, of_workers: dict[str, float], because: str
) -> None:
    found = measured(training(tmp_path), steadily(**of_workers))
    assert (found.cold_fraction, found.cache) == (None, "unknown")
    assert because in found.unknown["cold_fraction"]


def test_one_worker_that_may_not_be_looked_into_leaves_its_own_numbers_unknown_and_no_others(tmp_path: Path) -> None:
    hidden = {"queued": None, "requested": None, "read": None}
    telemetry = [
        look(t, process(PID, t), process(5000, t, requested=MB, read=0), process(5001, t, **hidden)) for t in range(60)
    ]
    found = measured(training(tmp_path), telemetry)
    _, seen, unseen = found.processes
    assert (seen.requested_bytes_per_s, seen.read_bytes_per_s, seen.queued_fraction) == (MB, 0.0, 0.0)
    assert (unseen.requested_bytes_per_s, unseen.read_bytes_per_s, unseen.queued_fraction) == (None, None, None)
    assert unseen.cpu_fraction == 0.0
    assert found.cache == "unknown"


def test_without_workers_the_main_process_reads(tmp_path: Path) -> None:
    telemetry = [look(t, process(PID, t, requested=20 * MB, read=0)) for t in range(60)]
    found = measured(training(tmp_path, workers=0), telemetry)
    (main,) = found.processes
    assert main.requested_bytes_per_s == pytest.approx(20 * MB)
    assert main.files_per_sample is None
    assert found.cache == "warm"


def test_workers_started_anew_each_epoch_are_one_worker_each_and_not_their_parents_reading(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.loader()
    telemetry = []
    reaped = 0
    for epoch in range(3):
        (pid,) = writer.begin_pass(number=epoch, workers=1, prefetch=1, length=20)
        for j in range(20):
            at = epoch * 20 + j
            writer.record(1, pid, index=j, a=at, b=at + 0.5, c=0.1, n1=2, n2=3)
            writer.deliver(at, at + 0.6, j, pass_number=epoch)
            writer.step(at + 1.0)
            # The parent's count holds all that its former workers read; a new worker begins at 0.
            main = replace(process(PID, 0), requested_bytes=reaped + at * 1000)
            worker = replace(process(pid, 0), requested_bytes=(j + 1) * 10 * MB, read_bytes=0, queued_s=j * 0.5)
            telemetry.append(look(at, main, worker))
        reaped += 20 * 10 * MB
    found = measured(writer, telemetry)
    main, worker = found.processes
    assert main.requested_bytes_per_s == pytest.approx(1000, rel=0.01)
    assert worker.requested_bytes_per_s == pytest.approx(10 * MB, rel=0.01)
    assert worker.queued_fraction == pytest.approx(0.5, rel=0.1)


def test_a_process_missed_by_one_look_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    telemetry = steadily(requested=MB, read=MB)
    telemetry[30] = replace(telemetry[30], processes=telemetry[30].processes[:2])
    found = measured(training(tmp_path), telemetry)
    assert found.processes[2].requested_bytes_per_s == pytest.approx(MB, rel=0.05)


def test_a_number_given_to_a_later_process_does_not_count_backwards(tmp_path: Path) -> None:
    telemetry = [
        look(t, process(PID, t), replace(process(5000, t if t < 30 else t - 30, cpu=0.5), queued_s=0.0))
        for t in range(60)
    ]
    found = measured(training(tmp_path, workers=1), telemetry)
    assert found.processes[1].cpu_fraction == pytest.approx(0.5, rel=0.05)


def test_files_are_counted_by_sample_in_the_batches_that_were_looked_at(tmp_path: Path) -> None:
    found = measured(training(tmp_path, files=12), steadily(requested=MB, read=0))
    assert [use.files_per_sample for use in found.processes] == [None, 6.0, 6.0]
    assert "6 files are opened for each sample" in " ".join(storage_lines(found))


def test_where_no_batch_was_looked_at_nothing_is_said_of_files(tmp_path: Path) -> None:
    found = measured(training(tmp_path, files=None), steadily(requested=100))
    assert [use.files_per_sample for use in found.processes] == [None, None, None]


def test_who_reads_without_opening_in_python_is_not_said_to_open_nothing(tmp_path: Path) -> None:
    assert measured(training(tmp_path / "1"), steadily(requested=MB)).processes[1].files_per_sample is None
    assert measured(training(tmp_path / "2"), steadily(requested=100)).processes[1].files_per_sample == 0


def test_one_worker_that_could_not_be_looked_at_does_not_hide_what_the_others_open() -> None:
    assert said(use("worker 0", files_per_sample=12.0), use("worker 1"), use("worker 2", files_per_sample=14.0)) == [
        "13 files are opened for each sample: each costs a round trip where storage is far away"
    ]
    assert said(use("worker 0", files_per_sample=1.0)) == []


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_window_too_short_for_two_looks_says_nothing(tmp_path: Path, looks: int) -> None:
    found = measured(training(tmp_path), [look(20.0, process(PID, 20))] * looks)
    assert found.processes == () and found.cache == "unknown"


def use(role: str, **known: float) -> ProcessUse:
    return ProcessUse(role=role, **known)


def said(*processes: ProcessUse, **more: object) -> list[str]:
    return storage_lines(replace(a_record().measurement, processes=processes, **more))


def test_a_quiet_machine_and_an_idle_storage_are_not_worth_a_word() -> None:
    idle = [use("main", queued_fraction=0.01), use("worker 0", queued_fraction=0.02, requested_bytes_per_s=900.0)]
    assert said(*idle, cache="unknown") == []
    assert said() == []


def test_waiting_for_a_core_is_named() -> None:
    assert said(use("main"), use("worker 0", queued_fraction=0.01), use("worker 1", queued_fraction=0.38)) == [
        "worker 1 waited 38% of the time for a core"
    ]
    both = said(
        use("main", queued_fraction=0.2), use("worker 0", queued_fraction=0.3), use("worker 1", queued_fraction=0.41)
    )
    assert both == [
        "2 of 2 workers waited 30% to 41% of the time for a core",
        "the training's own process waited 20% of the time for a core",
    ]


def test_where_the_bytes_come_from_is_named() -> None:
    reading = [use("main"), use("worker 0", requested_bytes_per_s=54.0 * 2**20, read_bytes_per_s=50.0 * 2**20)]
    (cold,) = said(*reading, cold_fraction=0.92, cache="cold")
    assert cold == "the loader reads 54 MiB/s, 92% of it from the device"
    (warm,) = said(*reading, cold_fraction=0.01, cache="warm")
    assert "from memory" in warm
    (unknown,) = said(*reading, cold_fraction=None, cache="unknown")
    assert "not known" in unknown


def test_mapped_files_are_told_from_what_read_asked_for() -> None:
    (line,) = said(use("worker 0", requested_bytes_per_s=100.0, read_bytes_per_s=30.0 * 2**20))
    assert line.startswith("30 MiB/s come from the device") and "mapped" in line


def test_bytes_of_some_workers_are_not_passed_for_those_of_all() -> None:
    assert said(use("worker 0", requested_bytes_per_s=9e7), use("worker 1", requested_bytes_per_s=None)) == []
