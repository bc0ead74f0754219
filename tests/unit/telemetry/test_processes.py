from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from vtune.telemetry.host import HostSampler
from vtune.telemetry.proc_files import ProcFiles

IO = "rchar: {}\nwchar: 5\nsyscr: 6\nsyscw: 7\nread_bytes: {}\nwrite_bytes: 9\ncancelled_write_bytes: 0\n"
LOCAL = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n23 22 0:21 / /proc rw - proc proc rw\n"


def sampler(proc, pids=(10,)):
    return HostSampler(lambda: pids, proc=proc.root)


def of_one(watch, now=0.0):
    (process,) = watch.sample(now, False).processes
    return process


def test_waiting_for_a_core_and_bytes_are_read(proc):
    proc.process(10)
    proc.write("10/schedstat", "123 2500000000 77\n")
    proc.write("10/io", IO.format(52_400_000, 1_300_000))
    process = of_one(sampler(proc))
    assert process.queued_s == pytest.approx(2.5)
    assert (process.requested_bytes, process.read_bytes) == (52_400_000, 1_300_000)


@pytest.mark.parametrize(
    ("io", "requested", "read"),
    [(None, None, None), ("rchar: 7\nwchar: 1\n", 7, None), ("read_bytes: 8\n", None, 8), ("", None, None)],
)
def test_each_number_that_the_kernel_does_not_tell_is_unknown_alone(proc, io, requested, read):
    proc.process(10)
    if io is not None:
        proc.write("10/io", io)
    process = of_one(sampler(proc))
    assert (process.requested_bytes, process.read_bytes, process.queued_s) == (requested, read, None)
    assert process.rss_bytes > 0


def test_a_kernel_that_does_not_count_the_waiting_writes_zeros_which_are_no_answer(proc):
    proc.process(10)
    proc.write("10/schedstat", "0 0 0\n")
    assert of_one(sampler(proc)).queued_s is None
    proc.write("10/schedstat", "55 0 3\n")
    assert of_one(sampler(proc)).queued_s == 0.0


def test_numbers_are_read_anew_though_the_files_stay_open(proc):
    proc.process(10)
    watch = sampler(proc)
    for requested in (5, 123456, 7):
        proc.write("10/io", IO.format(requested, 0))
        assert of_one(watch).requested_bytes == requested


def test_processes_that_are_no_longer_asked_for_hold_no_file_open(proc):
    proc.process(10)
    proc.process(11)
    pids = [10, 11]
    watch = sampler(proc, pids)
    watch.sample(0.0, False)
    both = len(os.listdir("/proc/self/fd"))
    pids.remove(11)
    watch.sample(0.2, False)
    one = len(os.listdir("/proc/self/fd"))
    del watch
    assert both > one > len(os.listdir("/proc/self/fd"))


def test_a_tree_of_thousands_does_not_use_up_the_descriptors(proc, monkeypatch):
    monkeypatch.setattr("vtune.telemetry.proc_files.MOST_KEPT", 6)
    for pid in range(100, 120):
        proc.process(pid)
        proc.write(f"{pid}/io", IO.format(pid, 0))
    before = len(os.listdir("/proc/self/fd"))
    watch = sampler(proc, range(100, 120))
    for _ in range(2):
        assert [p.requested_bytes for p in watch.sample(0.0, False).processes] == list(range(100, 120))
    assert len(os.listdir("/proc/self/fd")) <= before + 6


def test_the_file_of_a_process_that_ended_tells_nothing_even_when_its_number_is_given_again():
    files = ProcFiles(Path("/proc"))
    child = os.fork()
    if child == 0:
        signal.pause()
    assert files.of_process(child, "stat")
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert files.of_process(child, "stat") == b""


def holds_open(proc, pid, target):
    folder = proc.root / str(pid) / "fd"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(3 + len(list(folder.iterdir())))).symlink_to(target)


def test_bytes_from_the_device_are_known_where_every_mount_is_on_one(proc):
    proc.write("self/mountinfo", LOCAL)
    proc.process(10)
    proc.write("10/io", IO.format(100, 50))
    assert of_one(sampler(proc)).read_bytes == 50


def test_beside_a_network_mount_it_is_the_open_files_that_tell(proc, tmp_path):
    data, elsewhere = tmp_path / "local", tmp_path / "my data"
    for folder in (data, elsewhere):
        folder.mkdir()
        (folder / "volume.raw").write_bytes(b"x")
    escaped = str(elsewhere).replace(" ", "\\040")
    proc.write("self/mountinfo", LOCAL + f"40 22 0:50 / {escaped} rw - nfs4 server:/export rw\n")
    for pid in (10, 11, 12):
        proc.process(pid)
        proc.write(f"{pid}/io", IO.format(100, 50))
    holds_open(proc, 10, data / "volume.raw")
    holds_open(proc, 11, elsewhere / "volume.raw")
    holds_open(proc, 11, data / "volume.raw")
    watch = sampler(proc, (10, 11, 12))
    seen = {p.pid: (p.requested_bytes, p.read_bytes) for p in watch.sample(0.0, False).processes}
    # 10 reads from the disk, 11 from the network as well, of 12 nothing was seen.
    assert seen == {10: (100, 50), 11: (100, None), 12: (100, None)}


def test_code_and_pipes_on_a_network_mount_are_not_the_data(proc, tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("env/module.py", "data/volume.raw"):
        (tmp_path / name).write_bytes(b"x")
    proc.write("self/mountinfo", LOCAL + f"40 22 0:50 / {tmp_path}/env rw - nfs4 server:/export rw\n")
    proc.process(10)
    proc.write("10/io", IO.format(100, 50))
    for target in (tmp_path / "env/module.py", "pipe:[123]", tmp_path / "data/volume.raw"):
        holds_open(proc, 10, target)
    assert of_one(sampler(proc)).read_bytes == 50
