"""Before a trial: files that the first one read from their disk are out of memory again, where a run reads them so."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_trial
from vtune.domain.experiment import Experiment, PlannedRun, Window, Workload
from vtune.domain.machine import Machine
from vtune.domain.record import TrialRecord
from vtune.execution.cold_data import keep_cold

MACHINE = Machine(host="h", kernel="k", cpu_model=None, cores=2, ram_bytes=2**30, shm_bytes=2**30)
SIZE = 64 * 2**10
COLD = a_trial(1, 10.0, measured={"cache": "cold"})


def is_cached(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP):
                raise
            return False


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Written to the disk, and in memory. A tmpfs has no disk to read from."""
    folder = tmp_path / "data" / "deeper"
    folder.mkdir(parents=True)
    paths = [tmp_path / "data" / "one.bin", folder / "two.bin", tmp_path / "beside.bin"]
    probe = tmp_path / "probe.bin"
    for path in (*paths, probe):
        with path.open("wb") as file:
            file.write(bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.read_bytes()
    told = all(is_cached(path) for path in (*paths, probe))
    with probe.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if not told or is_cached(probe):
        pytest.skip("this file system does not tell what is in memory, or keeps it there")
    return paths


def asked(folder: Path, *, epochs: int | None = 1, keep: bool = True) -> Experiment:
    command = ("python", "train.py", "--data", str(folder / "data"), "--log", "none", "/dev/null")
    return Experiment(
        study="s",
        workload=Workload(command=command, cwd=folder),
        planned_run=PlannedRun(epochs=epochs),
        window=Window(keep_cold=keep),
    )


def kept(tmp_path: Path, experiment: Experiment, history: list[TrialRecord], machine: Machine = MACHINE) -> str:
    return " ".join(keep_cold(experiment, machine, history, tmp_path / "results"))


def test_a_run_of_one_epoch_reads_them_cold_and_so_do_its_trials(tmp_path: Path, files: list[Path]) -> None:
    warm = a_trial(2, 30.0, measured={"cache": "warm"})
    said = kept(tmp_path, asked(tmp_path), [replace(COLD, trial=4), warm])
    assert "trial 4 read them from their disk, as a run of one epoch does" in said
    assert [is_cached(path) for path in files] == [False, False, True]


def test_what_came_mostly_from_the_disk_is_kept_cold_too(tmp_path: Path, files: list[Path]) -> None:
    def mixed(share: float) -> list[TrialRecord]:
        return [a_trial(1, 10.0, measured={"cache": "mixed", "cold_fraction": share})]

    assert kept(tmp_path, asked(tmp_path), mixed(0.4)) == ""
    assert "as a run of one epoch does" in kept(tmp_path, asked(tmp_path), mixed(0.88))
    assert not is_cached(files[0])


def test_data_that_memory_cannot_hold_stay_cold_whatever_the_epochs(tmp_path: Path, files: list[Path]) -> None:
    small = replace(MACHINE, ram_bytes=2 * SIZE)
    said = kept(tmp_path, asked(tmp_path, epochs=None), [COLD], small)
    assert "more data than memory holds" in said


@pytest.mark.parametrize("why", ["later epochs are warm", "not cold at first", "the first", "not wanted"])
def test_else_they_are_left_as_they_are(tmp_path: Path, files: list[Path], why: str) -> None:
    history = {"not cold at first": [a_trial(1, 10.0, measured={"cache": "mixed"}), COLD], "the first": []}
    epochs = 3 if why == "later epochs are warm" else 1
    experiment = asked(tmp_path, epochs=epochs, keep=why != "not wanted")
    assert kept(tmp_path, experiment, history.get(why, [COLD])) == ""
    assert all(is_cached(path) for path in files)


def test_more_files_than_there_is_time_for_are_told(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtune.execution.cold_data.LONGEST_S", -1.0)
    said = kept(tmp_path, asked(tmp_path), [COLD])
    assert "only 0 of 2 files of its data could be taken out of the page cache" in said
    assert all(is_cached(path) for path in files)
