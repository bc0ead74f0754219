"""In a full run the hooks count instead of recording: exactly, in a file of one size, whatever the disk does."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from vtune.analysis.guard.pace import Pace
from vtune.analysis.guard.progress import progress_of
from vtune.domain.counts import ProcessCounts
from vtune.journal.counts import read_counts, read_counts_of
from vtune.journal.paths import TrialPaths

SIZE = 4096


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from _vtune_hooks import recorder

    monkeypatch.setattr(recorder, "here", recorder.Process(str(tmp_path), silent=False, light=True))
    return recorder


def step(recorder: Any, now: float, optimizer: int = 0) -> None:
    recorder.record(recorder.STEP, recorder.MAIN_THREAD, optimizer, 0, 0, 0.0, now, 0.0, 0, 0)


def batch(recorder: Any, asked: float, returned: float, *, loader: int = 0, leading: int = 2, samples: int = 0) -> None:
    flags = recorder.MAIN_THREAD | recorder.GRADIENTS
    recorder.record(recorder.DELIVERED, flags, loader, 0, 0, asked, returned, 0.0, leading, samples)


def told(folder: Path, pid: int | None = None) -> ProcessCounts:
    counts = read_counts_of(folder / f"counts-{pid or os.getpid()}.bin")
    assert counts is not None
    return counts


def facts(folder: Path, name: str) -> int:
    text = "".join(path.read_text() for path in folder.glob("steps-*.jsonl"))
    return text.count(f'"fact": "{name}"')


def test_steps_and_batches_are_counted_with_their_waits_and_their_longest_gap(recorder: Any, tmp_path: Path) -> None:
    batch(recorder, 10.0, 10.5, samples=3)
    step(recorder, 11.0)
    batch(recorder, 11.0, 11.25)
    step(recorder, 12.0)
    step(recorder, 17.0)
    recorder.flush()
    (delivered,), (steps,) = told(tmp_path).of("delivered"), told(tmp_path).of("step")
    assert (delivered.count, delivered.samples, delivered.waited_s, delivered.last_s) == (2, 5, 0.75, 11.25)
    assert (delivered.source, delivered.grad, delivered.main_thread, delivered.nested) == (0, True, True, False)
    assert (steps.count, steps.longest_gap_s, steps.last_s, steps.waited_s) == (3, 5.0, 17.0, 0.0)
    assert told(tmp_path).of("backward") == ()


def test_nothing_grows_with_the_run(recorder: Any, tmp_path: Path) -> None:
    for second in range(1000):
        batch(recorder, second, second + 0.5)
        step(recorder, second + 1.0)
    recorder.flush()
    assert not list(tmp_path.glob("steps-*.bin"))
    assert [path.stat().st_size for path in tmp_path.glob("counts-*.bin")] == [SIZE]
    assert [one.count for one in told(tmp_path).counted] == [1000, 1000]


def test_the_file_is_written_at_most_once_a_second_and_at_the_end(recorder: Any, tmp_path: Path) -> None:
    now = recorder._now()
    step(recorder, now)
    step(recorder, now + 0.5)
    assert told(tmp_path).counted[0].count == 1
    step(recorder, now + 1.1)
    assert told(tmp_path).counted[0].count == 3
    step(recorder, now + 1.2)
    recorder.last_words()
    assert told(tmp_path).counted[0].count == 4


def test_more_loaders_than_there_is_room_for_are_counted_together(recorder: Any, tmp_path: Path) -> None:
    for loader in range(500):
        batch(recorder, 1.0, 2.0, loader=loader, leading=1)
        step(recorder, 2.0, optimizer=loader)
    recorder.flush()
    found = told(tmp_path)
    assert sum(one.count for one in found.of("delivered")) == sum(one.samples for one in found.of("delivered")) == 500
    assert sum(one.count for one in found.of("step")) == 500
    (rest,) = [one for one in found.of("delivered") if one.source is None]
    assert rest.grad and rest.count == 500 - (len(found.of("delivered")) - 1)
    assert (tmp_path / f"counts-{os.getpid()}.bin").stat().st_size == SIZE


def test_steps_of_many_threads_are_all_counted(recorder: Any, tmp_path: Path) -> None:
    def many() -> None:
        for number in range(2000):
            recorder.record(recorder.STEP, 0, 0, 0, number, 0.0, recorder._now(), 0.0, 0, 0)

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.flush(wait=True)
    assert [(one.count, one.main_thread) for one in told(tmp_path).counted] == [(16000, False)]


def test_a_forked_child_counts_from_nothing_in_a_file_of_its_own(recorder: Any, tmp_path: Path) -> None:
    step(recorder, recorder._now())
    child = os.fork()
    if child == 0:
        step(recorder, recorder._now())
        step(recorder, recorder._now())
        recorder.flush()
        os._exit(0)
    os.waitpid(child, 0)
    step(recorder, recorder._now() + 5)
    assert told(tmp_path, child).counted[0].count == 2
    assert told(tmp_path).counted[0].count == 2
    assert {one.pid for one in read_counts(TrialPaths(tmp_path))} == {child, os.getpid()}


def test_a_disk_that_is_full_for_a_while_costs_no_count_and_no_error(recorder: Any, tmp_path: Path) -> None:
    counts = recorder.here.counts
    place, counts._file._path = counts._file._path, "/dev/full"
    now = recorder._now()
    step(recorder, now)
    assert not list(tmp_path.glob("counts-*"))
    counts._file.forget()
    counts._file._path = place
    step(recorder, now + 2)
    assert not list(tmp_path.glob("counts-*")), "one that failed is not tried again at once"
    step(recorder, now + 40)
    counts.write(now + 40)
    assert told(tmp_path).counted[0].count == 3


def test_facts_that_no_disk_takes_are_no_reason_to_stop_counting(recorder: Any, tmp_path: Path) -> None:
    recorder.here.facts._path = "/dev/full"
    recorder.fact("saved", seconds=1.0)
    step(recorder, recorder._now())
    assert told(tmp_path).counted[0].count == 1


def test_a_fact_that_comes_again_and_again_is_told_ever_more_seldom(
    recorder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five days, a pass each half minute.
    clock = [1000.0]
    monkeypatch.setattr(recorder, "_now", lambda: clock[0])
    recorder.fact("optimizer", optimizer=0)
    for _ in range(5 * 24 * 120):
        clock[0] += 30.0
        recorder.fact("pass", loader=0)
    assert 500 < facts(tmp_path, "pass") < 1000
    recorder.fact("failed", text="the end")
    assert facts(tmp_path, "failed") == facts(tmp_path, "optimizer") == 1


def test_a_loader_worker_of_a_full_run_leaves_no_file(recorder: Any, tmp_path: Path) -> None:
    recorder.become_loader_worker()
    recorder.fact("pass", loader=0)
    recorder.last_words()
    assert list(tmp_path.iterdir()) == []


def test_a_stop_file_a_ceiling_and_a_limit_of_vram_are_nothing_to_a_full_run(recorder: Any, tmp_path: Path) -> None:
    from _vtune_hooks import ceiling, ending, vram_limit

    ending._start_afresh()
    vram_limit._start_afresh()
    (tmp_path / "stop").write_text("0\n")
    (tmp_path / "spec.json").write_text(
        '{"effects": [{"kind": "LimitVram", "bytes": 1},'
        ' {"kind": "FindCeiling", "loader": "x", "ladder_s": 1, "ram_bytes": null}]}'
    )
    assert not ending.is_asked(recorder._now())
    assert not vram_limit.is_wanted()
    assert ceiling.fed(step) is step
    vram_limit._start_afresh()


def test_the_steady_rate_of_many_short_epochs_leaves_out_each_of_their_restarts(
    recorder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, pace = [1000.0], Pace()
    monkeypatch.setattr(recorder, "_now", lambda: clock[0])

    def looks_until(then: float) -> None:
        while clock[0] + 1.0 <= then:
            clock[0] += 1.0
            pace.look(progress_of(read_counts(TrialPaths(tmp_path)), clock[0]))

    # Twice as many as facts are told at once: workers come up for 5 s, then ten steps a second for 15 s.
    for _ in range(200):
        begun = clock[0]
        looks_until(begun + 5.0)
        recorder.fact("pass", loader=0)
        recorder.count_with_the_next(recorder.PASS, 0, begun, clock[0])
        for number in range(150):
            now = begun + 5.0 + (number + 1) / 10
            batch(recorder, now - 0.01, now)
            step(recorder, now)
            looks_until(now)
    assert facts(tmp_path, "pass") < 150
    assert pace.whole.rate == pytest.approx(10.0, rel=0.01) and pace.whole.steps > 0.8 * 200 * 150


def test_a_new_pass_does_not_use_up_the_write_that_tells_the_first_batch(recorder: Any, tmp_path: Path) -> None:
    now = recorder._now()
    recorder.fact("pass", loader=0)
    recorder.count_with_the_next(recorder.PASS, 0, now, now)
    recorder.fact("shape", loader=0)
    assert not list(tmp_path.glob("counts-*"))
    batch(recorder, now, now + 0.1)
    assert [(one.kind, one.count) for one in told(tmp_path).counted] == [("pass", 1), ("delivered", 1)]
