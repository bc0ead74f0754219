"""The emulated accelerator: that it says what it is, and never stands before a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from emulated import accelerator, fake_nvml
from emulated.accelerator import Emulated

MB = 1_000_000


def test_beside_a_real_accelerator_it_refuses_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match=r"for machines without one, and torch\.cuda is here"):
        accelerator.install()
    assert not hasattr(torch, "emulated")


def test_a_device_that_does_not_call_itself_emulated_is_refused() -> None:
    with pytest.raises(ValueError, match='must begin with "Emulated", got "A100"'):
        Emulated(MB, name="A100")


def test_what_does_not_fit_beside_the_context_is_torchs_own_error() -> None:
    device = Emulated(800 * MB, context_bytes=100 * MB)
    device.allocate(100 * MB)
    device.allocate(540 * MB)
    device.free(540 * MB)
    with pytest.raises(torch.OutOfMemoryError, match="emulated out of memory"):
        device.allocate(1080 * MB)


PINNED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from emulated import accelerator
accelerator.install()
for workers in (0, 2):
    batches = [batch for (batch,) in DataLoader(
        TensorDataset(torch.arange(4.0)), batch_size=2, num_workers=workers, pin_memory=True)]
    print([(batch.tolist(), batch.is_pinned()) for batch in batches])
print(torch.zeros(1).is_pinned())
"""


def test_a_loader_that_pins_gives_its_batches_pinned() -> None:
    # In a process of its own: it stays installed.
    done = subprocess.run(
        [sys.executable, "-c", PINNED],
        env={**os.environ, "PYTHONPATH": str(Path(accelerator.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=110,
    )
    pinned = "[([0.0, 1.0], True), ([2.0, 3.0], True)]\n"
    assert done.stdout == 2 * pinned + "False\n", done.stderr


def test_a_kernel_is_launched_at_once_and_ends_later() -> None:
    device = Emulated(MB)
    before = accelerator._now()
    device.launch(30.0)
    launched = accelerator._now()
    device.launch(10.0)
    assert launched - before < 5 < 39 < device.free_at - before


def test_a_driver_of_our_own_is_not_taken_for_a_real_one_and_another_library_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fake_nvml.os.path, "exists", lambda path: False)
    for library, found in ((type("Ours", (), {fake_nvml.OURS: None}), None), (type("Real", (), {}), fake_nvml.LIBRARY)):
        monkeypatch.setattr(fake_nvml.ctypes, "CDLL", lambda name, library=library: library)
        assert fake_nvml.real_driver() == found


def test_without_a_compiler_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fake_nvml.shutil, "which", lambda name: None)
    with pytest.raises(fake_nvml.NoCompiler, match=r"no C compiler \(cc\)"):
        fake_nvml.build(tmp_path)
