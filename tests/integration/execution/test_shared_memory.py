"""Segments in /dev/shm: the trial's are removed, nobody else's are touched."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vtune.execution.ownership import proof_of

SHM = Path("/dev/shm")
# Prints the names of what it made, and waits. `track=False` before Python 3.13 is done by hand.
SEGMENT = """
import os, time
from multiprocessing import resource_tracker, shared_memory
segment = shared_memory.SharedMemory(create=True, size=4096)
{forget}
print(segment.name, flush=True)
time.sleep(1000)
"""
UNTRACKED = SEGMENT.format(forget="resource_tracker.unregister('/' + segment.name, 'shared_memory')")
MAPS_A_FILE = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
print("ready", flush=True)
time.sleep(1000)
"""
SHARED_TENSOR = """
import os, sys, time
import torch
torch.multiprocessing.set_sharing_strategy("file_system")
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 10_000
    def __getitem__(self, index): return torch.full((1000,), float(index))
loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork")
batches = iter(loader)
kept = [next(batches) for _ in range(3)]
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A segment that comes up while the trial runs and is not the trial's."""
    path = SHM / f"foreign_{os.urandom(6).hex()}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("code", [SEGMENT.format(forget=""), UNTRACKED], ids=["tracked", "untracked"])
def test_segments_of_a_killed_training_are_removed_and_foreign_ones_stay(trials, finish, printed, foreign, code):
    trial, folder, _ = trials.python(code)
    (name,) = printed(folder)
    foreign.write_bytes(b"mine")
    assert (SHM / name).exists()
    trial.kill("limit")
    outcome = finish(trial)
    assert not (SHM / name).exists()
    assert foreign.exists()
    assert outcome.shm_removed == (name,)


def test_a_segment_of_a_training_killed_by_the_kernel_is_removed(trials, finish, printed, wait_for):
    trial, folder, token = trials.python(UNTRACKED)
    (name,) = printed(folder)
    wait_for(lambda: name in (proof_of(token, folder) or {})["shm_ours"])
    os.kill(trial.leader_pid, signal.SIGKILL)
    assert finish(trial).shm_removed == (name,)
    assert not (SHM / name).exists()


def test_a_segment_is_removed_after_its_supervisor_was_killed(trials, finish, printed, wait_for):
    trial, folder, token = trials.python(UNTRACKED)
    (name,) = printed(folder)
    wait_for(lambda: name in (proof_of(token, folder) or {})["shm_ours"])
    os.kill(trial.own_pids[0], signal.SIGKILL)
    assert finish(trial).shm_removed == (name,)
    assert not (SHM / name).exists()


def test_a_segment_that_somebody_else_uses_too_stays(trials, finish, printed, neighbour):
    trial, folder, _ = trials.python(UNTRACKED)
    (name,) = printed(folder)
    user = neighbour(sys.executable, "-c", MAPS_A_FILE, str(SHM / name))
    assert user.stdout.readline() == "ready\n"
    trial.kill("limit")
    try:
        assert finish(trial).shm_removed == ()
        assert (SHM / name).exists()
    finally:
        (SHM / name).unlink()


def test_a_segment_from_before_the_trial_stays_though_the_trial_used_it(trials, finish, printed, foreign):
    foreign.write_bytes(b"data" * 1024)
    code = "import sys, time; f = open(sys.argv[1], 'r+b'); print('ready', flush=True); time.sleep(1000)"
    trial, folder, _ = trials.python(code, str(foreign))
    printed(folder)
    trial.kill("limit")
    assert finish(trial).shm_removed == ()
    assert foreign.exists()


def test_tensors_shared_through_files_are_removed(trials, finish, printed):
    pytest.importorskip("torch")
    trial, folder, _ = trials.python(SHARED_TENSOR)
    printed(folder)
    pids = trial.pids()
    ours = [name for name in os.listdir(SHM) if name.startswith(tuple(f"torch_{pid}_" for pid in pids))]
    assert ours
    trial.kill("limit")
    outcome = finish(trial)
    assert set(ours) <= set(outcome.shm_removed)
    assert not [name for name in os.listdir(SHM) if name.startswith(tuple(f"torch_{pid}_" for pid in pids))]
