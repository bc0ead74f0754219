"""What this machine has, read from files of /proc and /sys; and what is said when something is missing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from vtune.telemetry.cannot import of_storage, without_a_trial
from vtune.telemetry.cores import cores
from vtune.telemetry.kernel import kernel
from vtune.telemetry.proc_text import PROC
from vtune.telemetry.scratch import Scratch, filesystem_of, nearest_existing, scratch
from vtune.telemetry.survey import survey
from vtune.telemetry.training_python import TrainingPython, training_python

MIB = 2**20
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="this Python has no torch to be found")


def test_results_that_can_be_kept_nowhere_block_every_trial(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("")
    python = TrainingPython(executable="python", torch="2.13.0")
    for results, words in ((file / "deeper", "taken is no folder"), (Path("/proc/x"), "/proc cannot be written to")):
        [one] = without_a_trial(PROC, results, python)
        assert one.blocks and words in one.because
    assert without_a_trial(PROC, tmp_path / "new", python) == []


def cpus(root: Path, siblings: dict[int, str]) -> Path:
    for number, text in siblings.items():
        folder = root / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    return root


def test_a_quota_below_the_affinity_is_what_can_be_used(proc):
    proc.group("0::/box", "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 none rw", {})
    proc.write("self/mountinfo", f"30 1 0:1 / {proc.root}/group rw - cgroup2 none rw\n")
    proc.write("group/box/cpu.max", "50000 100000\n")
    found = cores(proc.root)
    assert found.quota == 0.5 and found.usable == 0.5
    assert found.allowed == len(os.sched_getaffinity(0))


def test_two_threads_of_one_core_are_one_physical_core(proc, tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    shared = cpus(tmp_path / "shared", dict.fromkeys(allowed, ",".join(map(str, allowed))))
    assert cores(proc.root, shared).physical == 1
    apart = cpus(tmp_path / "apart", {number: str(number) for number in allowed})
    assert cores(proc.root, apart).physical == len(allowed)


def test_cores_behind_the_processors_are_unknown_without_a_topology(proc, tmp_path):
    assert cores(proc.root, tmp_path / "nothing").physical is None


def test_the_speed_of_a_folder_is_measured_and_nothing_is_left(tmp_path):
    found = scratch(tmp_path, most_bytes=8 * MIB)
    assert found.tried_bytes == 8 * MIB and found.why_unknown is None
    assert found.write_bytes_per_s > 0 and found.read_bytes_per_s > 0
    assert found.filesystem == filesystem_of(tmp_path) is not None
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_is_measured_on_what_fits_the_time(tmp_path):
    found = scratch(tmp_path, most_bytes=2**40, seconds=0.05)
    assert 0 < found.tried_bytes < 2**34


def test_a_folder_that_is_not_there_yet_is_that_of_its_parent(tmp_path):
    assert nearest_existing(tmp_path / "a" / "b") == tmp_path
    assert scratch(tmp_path / "a" / "b", most_bytes=4 * MIB).tried_bytes == 4 * MIB
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_has_no_speed_and_a_reason(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot write there" in scratch(tmp_path).why_unknown


def test_the_innermost_and_last_mount_is_the_folders_file_system(proc, tmp_path):
    mounts = [
        "20 1 0:1 / / rw - overlay overlay rw",
        f"21 20 0:2 / {tmp_path} rw - nfs4 server:/x rw",
        f"22 21 0:3 / {tmp_path}/with\\040space rw - fuse.s3fs s3fs rw",
        f"23 22 0:4 / {tmp_path}/with\\040space rw - ext4 /dev/x rw",
    ]
    proc.write("self/mountinfo", "\n".join(mounts) + "\n")
    (tmp_path / "with space" / "deep").mkdir(parents=True)
    assert filesystem_of(Path("/"), proc.root) == "overlay"
    assert filesystem_of(tmp_path, proc.root) == "nfs4"
    assert filesystem_of(tmp_path / "with space" / "deep", proc.root) == "ext4"


def test_an_old_or_closed_kernel_is_told_by_what_it_lacks(proc):
    found = kernel(proc.root)
    assert not (found.schedstat or found.pss_anon or found.process_io or found.memory_group_writable)
    proc.write("self/schedstat", "1 2 3\n")
    proc.write("self/smaps_rollup", "x\nPss_Anon: 1 kB\n")
    proc.write("self/io", "rchar: 1\nread_bytes: 2\n")
    proc.write("self/mountinfo", "20 1 0:1 / /proc rw,relatime - proc proc rw,hidepid=invisible\n")
    found = kernel(proc.root)
    assert found.schedstat and found.pss_anon and found.process_io
    assert found.proc_hides_others
    proc.write("self/mountinfo", "20 1 0:1 / /proc rw,relatime - proc proc rw,hidepid=0\n")
    assert not kernel(proc.root).proc_hides_others


def fake_python(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@needs_torch
def test_the_trainings_torch_is_found_without_importing_it():
    found = training_python(sys.executable)
    assert found.torch is not None and found.problem is None
    assert found.python == sys.version.split()[0]


def test_a_build_for_cuda_is_told_with_its_version(tmp_path):
    told = '{"executable": "x", "python": "3.12.1", "torch": "2.9.0", "__version__": "2.9.0+cu128", "cuda": "12.8"}'
    found = training_python(fake_python(tmp_path, f"echo '{told}'"))
    assert (found.torch, found.accelerator, found.cuda) == ("2.9.0+cu128", "CUDA 12.8", "12.8")


def test_a_python_that_is_none_is_a_sentence_and_not_a_traceback(tmp_path):
    assert "cannot be started" in training_python(str(tmp_path / "no")).problem
    assert "no Python" in training_python(fake_python(tmp_path, "echo hello")).problem


def test_what_is_lacking_is_named_with_its_reason(proc, tmp_path):
    python = fake_python(tmp_path, 'echo \'{"python": "3.12.1"}\'')
    found = survey(tmp_path / "results", python, proc=proc.root, shm=str(tmp_path / "no-shm"))
    told = {one.what: one for one in found.cannot}
    assert told["no training can be started"].blocks and "has no torch" in told["no training can be started"].because
    assert told["trials cannot run"].blocks and "is not mounted" in told["trials cannot run"].because
    assert "smaps_rollup" in told["RAM of a tree is unknown: shared pages would count twice"].because
    assert told["waiting for a core is not told from computing"].because == "no /proc/PID/schedstat"
    assert "there is no /dev/shm" in told["loader workers may not be able to pass batches"].because
    assert found.shm is None and found.memory.available_bytes == 8 * 2**30


@pytest.mark.parametrize("kind", ["zfs", "ocfs2", "gpfs", "afs", "nfs4", "fuse.s3fs", "never-heard-of"])
def test_where_reads_are_not_counted_doctor_says_so(kind):
    (told,) = of_storage(Scratch(filesystem=kind, free_bytes=None))
    assert told.what.startswith("bytes that come from") and kind in told.because


@pytest.mark.parametrize("kind", ["ext4", "overlay", "xfs", "tmpfs", None])
def test_where_they_are_counted_or_nothing_is_known_it_says_nothing(kind):
    assert of_storage(Scratch(filesystem=kind, free_bytes=None)) == []


@needs_torch
def test_a_survey_of_this_machine_blocks_nothing_and_knows_its_neighbours(tmp_path):
    found = survey(tmp_path, sys.executable)
    assert not any(one.blocks for one in found.cannot)
    assert found.neighbours.others_cores is not None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_memory_is_told_as_such():
    if filesystem_of(Path("/dev/shm")) != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    assert scratch(Path("/dev/shm"), most_bytes=4 * MIB).way == "cached"
