"""Real loader workers, ended at moments that nobody chose."""

from __future__ import annotations

import os
import random
import time

import pytest

pytest.importorskip("torch")

TRAINING = """
import time
import torch
class Noise(torch.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index): return torch.randn(64, 64), torch.tensor(index)
print("ready", flush=True)
while True:
    for images, _ in torch.utils.data.DataLoader(Noise(), batch_size=4, num_workers=2, shuffle=True):
        (images @ images).sum().item()
"""


@pytest.mark.parametrize(
    "how", ["kill", "end", *(pytest.param(how, marks=pytest.mark.slow) for how in ("end", "kill"))]
)
def test_a_loader_killed_at_any_moment_leaves_no_process_and_no_segment(trials, finish, printed, living, how):
    trial, folder, token = trials.python(TRAINING)
    printed(folder)
    time.sleep(random.uniform(0.0, 0.3))
    trial.pids()
    time.sleep(random.uniform(0.0, 0.2))
    if how == "kill":
        trial.kill("limit")
    else:
        trial.end("window", 0.0)
    outcome = finish(trial)
    assert outcome.ended_by in ("limit", "window")
    assert outcome.seconds < 60.0
    assert living(token) == []
    pids = (trial.leader_pid, *trial.pids())
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(tuple(f"torch_{pid}_" for pid in pids))]
