"""The emulated accelerator: that it says what it is, and never stands before a real one."""

from __future__ import annotations

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
