from pathlib import Path

import pytest

from support.trial_writer import PID, TrialWriter, tear
from vtune.journal import step_log
from vtune.journal.step_log import StepLog


def test_records_and_facts_come_back_as_they_were_written(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.deliver(1.0, 1.5, index=7, samples=3)
    writer.step(2.0)
    writer.load(5000, 1, 7, 0.5, 1.25)
    log = StepLog(writer.paths)
    assert log.refresh()
    [batch], [step], [loaded], [hello] = log.delivered, log.steps, log.loaded, log.facts
    assert (batch.index, batch.asked_s, batch.returned_s, batch.samples) == (7, 1.0, 1.5, 3)
    assert batch.main_thread and batch.grad and not batch.nested
    assert (step.number, step.ended_s, step.pid) == (1, 2.0, PID)
    assert (loaded.pid, loaded.worker, loaded.started_s, loaded.finished_s) == (5000, 1, 0.5, 1.25)
    assert hello.name == "hello" and hello.data["torch"] == "2.13.0"


def test_the_devices_clock_and_the_stages_come_back(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.record(5, source=1, index=9, a=0.02, b=5.0, c=0.004, n1=3)
    writer.record(5, source=1, index=10, a=0.02, b=5.1, c=-1.0, n1=3)
    peak = 72_155_000_000
    writer.record(6, flags=3, source=2, group=2, index=9, a=4.5, b=5.0, c=0.01, n1=peak & 0xFFFFFFFF, n2=peak >> 32)
    writer.record(6, flags=1, source=0, group=0, index=10, a=4.6, b=5.0, c=-1.0)
    writer.record(6, group=99)
    log = StepLog(writer.paths)
    assert log.refresh()
    first, second = log.device_steps
    assert (first.device, first.optimizer, first.number, first.busy_s, first.gap_s) == (1, 3, 9, 0.02, 0.004)
    assert second.gap_s is None
    forward, begin = log.stages
    assert (forward.stage, forward.device, forward.host_s, forward.device_s) == ("forward", 1, 4.5, 0.01)
    assert forward.peak_bytes == peak
    assert (begin.stage, begin.device, begin.device_s, begin.peak_bytes) == ("begin", None, None, None)


def test_a_torn_record_is_read_once_it_is_whole(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.step(1.0)
    writer.step(2.0)
    path = writer.paths.step_records()[0]
    whole = path.read_bytes()
    tear(path, 10)
    log = StepLog(writer.paths)
    log.refresh()
    assert [s.ended_s for s in log.steps] == [1.0]
    path.write_bytes(whole)
    log.refresh()
    assert [s.ended_s for s in log.steps] == [1.0, 2.0]


def test_refresh_says_whether_anything_was_new(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.step(1.0)
    log = StepLog(writer.paths)
    assert log.refresh()
    assert not log.refresh()


def test_a_foreign_or_torn_fact_line_is_dropped(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    path = writer.paths.step_facts()[0]
    with open(path, "ab") as file:
        file.write(b'not json\n["a list"]\n{"t": "yesterday", "fact": "hello"}\n{"t": 3, "fact": "tor')
    log = StepLog(writer.paths)
    log.refresh()
    assert len(log.facts) == 1


def test_another_programs_file_is_not_read(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path)
    (tmp_path / "steps-77.bin").write_bytes(b"\0" * 4096)
    log = StepLog(writer.paths)
    assert not log.refresh()


def test_only_files_that_grew_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.step(1.0)
    (tmp_path / "steps-78.bin").symlink_to(tmp_path / "gone")
    log = StepLog(writer.paths)
    assert log.refresh()
    opened: list[Path] = []
    real = step_log.open_regular
    monkeypatch.setattr(step_log, "open_regular", lambda path: opened.append(path) or real(path))
    assert not log.refresh()
    assert not opened
    writer.step(2.0)
    assert log.refresh()
    assert opened == writer.paths.step_records()[:1]
