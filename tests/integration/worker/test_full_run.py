"""The hooks in a full run: they count what the training counts itself, leave nothing else, and change nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.counts import BRIEF, CountedKind, ProcessCounts
from vtune.journal.counts import HEADER, SLOT, read_counts
from vtune.journal.paths import TrialPaths

BENCHMARKS = (Path(__file__).resolve().parents[3] / "benchmarks",)


def counts_of(run: Any) -> list[ProcessCounts]:
    return read_counts(TrialPaths(run.folder))


def total(counts: ProcessCounts, kind: CountedKind) -> int:
    return sum(one.count for one in counts.of(kind))


def unchanged(plain: Any, watched: Any, *, exit_code: int = 0) -> None:
    assert watched.said == plain.said
    assert watched.exit_code == exit_code, watched.stderr
    assert watched.facts("problem") == []
    assert not list(watched.folder.glob("steps-*.bin"))
    assert kinds_counted(watched) <= {2, 3, 4, 8, 9}


def kinds_counted(run: Any) -> set[int]:
    """As they stand in the files, whether or not the reader knows them: 5 and 6 would be a device's."""
    texts = [path.read_bytes() for path in run.folder.glob("counts-*.bin")]
    return {
        SLOT.unpack_from(text, HEADER.size + number * SLOT.size)[0]
        for text in texts
        for number in range(HEADER.unpack_from(text)[2])
    }


def test_the_counts_are_the_trainings_own_and_its_losses_those_without_hooks(both: Any) -> None:
    plain, watched = both("plain.py", "--batch", 4, "--epochs", 3, launch=True)
    unchanged(plain, watched)
    sizes = [int(line.split()[2]) for line in plain.stdout.splitlines()[:-1]]
    (counts,) = counts_of(watched)
    (delivered,) = counts.of("delivered")
    assert (delivered.count, delivered.samples) == (len(sizes), sum(sizes)) == (18, 66)
    assert delivered.main_thread and delivered.grad and not delivered.nested
    assert (total(counts, "step"), total(counts, "backward")) == (18, 18)
    assert [loader["loader"] for loader in watched.facts("loader")] == [delivered.source]
    (passes,) = counts.of("pass")
    assert (passes.source, passes.count, passes.main_thread) == (delivered.source, 3, True)
    assert len(watched.facts("left")) == 1
    assert counts.pid == watched.facts("left")[0]["in"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_a_loader_write_nothing_however_they_are_started(both: Any, method: str) -> None:
    plain, watched = both(
        "plain.py", "--batch", 4, "--epochs", 2, "--workers", 2, "--start-method", method, launch=True
    )
    unchanged(plain, watched)
    (counts,) = counts_of(watched)
    assert (total(counts, "delivered"), total(counts, "step")) == (12, 12)
    assert len(list(watched.folder.glob("steps-*.jsonl"))) == 1
    assert not watched.facts("reads")


@pytest.mark.slow
def test_training_and_validation_are_counted_apart_and_every_new_loader_as_the_same(both: Any) -> None:
    plain, watched = both("anew_each_epoch.py", launch=True)
    unchanged(plain, watched)
    (counts,) = counts_of(watched)
    assert sorted((one.grad, one.count, one.samples) for one in counts.of("delivered")) == [
        (False, 6, 30),
        (True, 3, 15),
        (True, 9, 45),
    ]
    sources = {one.source: one.count for one in counts.of("pass")}
    assert sources == {one.source: 3 for one in counts.of("delivered")}


@pytest.mark.slow
def test_random_numbers_and_what_frameworks_inspect_are_as_without_us(both: Any) -> None:
    unchanged(*both("inspected.py", launch=True))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_rank_counts_for_itself(both: Any, tmp_path: Path, method: str) -> None:
    plain, watched = both("spawned_ranks.py", method, tmp_path, launch=True)
    unchanged(plain, watched)
    assert [(total(one, "step"), total(one, "delivered")) for one in counts_of(watched)] == [(4, 4), (4, 4)]
    assert {one.pid for one in counts_of(watched)} == {fact["in"] for fact in watched.facts("optimizer")}


@pytest.mark.slow
def test_saves_are_counted_with_their_time(both: Any, tmp_path: Path) -> None:
    plain, watched = both("saving.py", tmp_path, launch=True)
    unchanged(plain, watched)
    (counts,) = counts_of(watched)
    felt = next(one for one in counts.of("saved") if one.source != BRIEF)
    # Two that take 30 ms; those in a thread or in a worker hold nobody up.
    assert felt.count == len(watched.facts("saved"))
    assert felt.count >= 2 and felt.waited_s >= 0.06
    assert total(counts, "saved") == 3


@pytest.mark.slow
def test_a_save_that_is_not_felt_is_a_checkpoint_all_the_same(both: Any) -> None:
    words = "import io, torch\nfor _ in range(7): torch.save(None, io.BytesIO())"
    plain, watched = both("-c", words, launch=True)
    unchanged(plain, watched)
    (counts,) = counts_of(watched)
    assert total(counts, "saved") == 7
    # The first one loads what torch needs for it.
    assert sum(one.count for one in counts.of("saved") if one.source == BRIEF) >= 5
    assert len(watched.facts("saved")) <= 2


@pytest.mark.slow
def test_loaders_are_turned_as_the_spec_asks(learnt: Any, start: Any) -> None:
    key = next(fact["key"] for fact in learnt.facts("loader") if fact["asked"] and fact["asked"]["batch_size"] == 4)
    effects = [{"kind": "SetDataLoaderOption", "loader": key, "option": "batch_size", "value": 6}]
    run = start("many_loaders.py", effects=effects, launch=True).wait()
    assert run.exit_code == 0, run.stderr
    assert "plain | [6, 6]" in run.stdout
    (told,) = [fact for fact in run.facts("loader") if fact["key"] == key]
    assert told["turned"] == {"batch_size": 6}


@pytest.mark.slow
def test_no_device_is_timed_and_no_step_looked_at_closely(both: Any) -> None:
    plain, watched = both("on_a_device.py", "--steps", 120, path=BENCHMARKS, launch=True)
    unchanged(plain, watched)
    (counts,) = counts_of(watched)
    assert (total(counts, "step"), total(counts, "delivered")) == (120, 120)
    # What its allocator holds is still told.
    assert watched.facts("memory")[-1]["allocated_peak"] > 0


@pytest.mark.slow
def test_a_stop_file_does_not_end_it(start: Any) -> None:
    started = start("plain.py", "--epochs", 40, launch=True)
    (started.folder / "stop").write_text("0\n")
    run = started.wait()
    assert run.exit_code == 0
    (counts,) = counts_of(run)
    assert total(counts, "step") == 240


def test_a_training_without_torch_leaves_one_line_of_its_start(start: Any) -> None:
    run = start("-c", "print('hello')", launch=True).wait()
    assert run.stdout == "hello\n"
    assert re.fullmatch(r"pythons\.jsonl", " ".join(p.name for p in run.folder.iterdir() if "python" in p.name))
    assert counts_of(run) == [] and run.pythons()[0]["executable"] == sys.executable
