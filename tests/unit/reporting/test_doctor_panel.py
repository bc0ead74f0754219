"""What a renter reads: every part says what is unknown, and foreign names are inert."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console, RenderableType

from vtune.domain.machine import Gpu
from vtune.domain.selftest import CellResult, CellStatus
from vtune.reporting.doctor_panel import doctor_panel, selftest_table, summary
from vtune.telemetry.cannot import Cannot
from vtune.telemetry.cores import Cores
from vtune.telemetry.kernel import Kernel
from vtune.telemetry.memory import SharedMemory
from vtune.telemetry.nvml import DeviceNow, DeviceProcess, Devices
from vtune.telemetry.scratch import Scratch
from vtune.telemetry.survey import Memory, Neighbours, Survey
from vtune.telemetry.training_python import TrainingPython

GIB = 2**30
SURVEY = Survey(
    cpu_model=None,
    cores=Cores(usable=2.5, allowed=8, quota=2.5, logical=64, physical=4),
    memory=Memory(
        usable_bytes=16 * GIB, available_bytes=9 * GIB, group_limit_bytes=16 * GIB, machine_bytes=256 * GIB
    ),
    shm=SharedMemory(size_bytes=64 * 2**20, free_bytes=64 * 2**20),
    gpus=Devices(devices=(), driver=None, cuda=None, why_none="no driver"),
    neighbours=Neighbours(others_cores=None, load_average=None, gpu_processes=None),
    scratch=Scratch(filesystem="fuse.s3fs", free_bytes=None, why_unknown="cannot write there: Permission denied"),
    kernel=Kernel(
        release="5.4", schedstat=True, pss_anon=False, process_io=True, pidfd=True,
        proc_hides_others=False, memory_group_writable=False,
    ),
    python=TrainingPython(executable="/x/python", python="3.12.1", torch="2.9.0", accelerator="CUDA 12.8", cuda="12.8"),
    cannot=(Cannot(what="RAM of a tree is unknown", because="an old kernel", instead="a newer one"),),
)  # fmt: skip


def shown(renderable: RenderableType) -> str:
    console = Console(file=StringIO(), width=300, no_color=True, highlight=False)
    console.print(renderable)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_container_is_told_by_its_quota_its_limit_and_its_small_shm() -> None:
    text = shown(doctor_panel(SURVEY, validated=False))
    assert "2.5 usable: quota 2.5, affinity 8 of 64 in the machine, 4 physical, two threads each" in text
    assert "16 GiB, the control group's limit; the machine has 256 GiB · 9 GiB available now" in text
    assert "64 MiB · 64 MiB free" in text
    assert "fuse.s3fs, unknown free · speed unknown: cannot write there: Permission denied" in text
    assert "RAM of a tree is unknown: an old kernel; instead: a newer one" in text
    assert "not validated here" in text


def test_a_gpu_is_told_with_who_uses_it_and_its_driver() -> None:
    used = DeviceNow(
        gpu=Gpu(index=0, uuid="GPU-1", name="NVIDIA A100", memory_bytes=80 * GIB),
        used_bytes=10 * GIB,
        util_percent=37.4,
        processes=(DeviceProcess(pid=77, used_bytes=10 * GIB), DeviceProcess(pid=78, used_bytes=None)),
    )
    mig = DeviceNow(gpu=Gpu(index=1, uuid="MIG-1", name="A30 1g.6gb", memory_bytes=6 * GIB, mig=True))
    gpus = Devices(devices=(used, mig), driver="580.65", cuda="13.0", why_none=None)
    text = shown(doctor_panel(replace(SURVEY, gpus=gpus), validated=True))
    assert (
        "NVIDIA A100 · 10 GiB of 80 GiB in use by 2 processes: 77 (10 GiB), 78 (unknown) · busy for 37 % of the time"
        in text
    )
    assert "A30 1g.6gb, a MIG slice · unknown of 6 GiB in use by whom is not told" in text
    assert text.count("busy for") == 1
    assert "580.65, runs CUDA up to 13.0" in text and "passed with these GPUs" in text


def test_hostile_names_move_no_cursor() -> None:
    hostile = "\x1b[2J<script>" + "x" * 10_000
    gpu = DeviceNow(gpu=Gpu(index=0, uuid="GPU-1", name=hostile))
    gpus = Devices(devices=(gpu,), driver=hostile, cuda=None, why_none=None)
    text = shown(doctor_panel(replace(SURVEY, gpus=gpus, cpu_model=hostile), validated=False))
    assert "\x1b" not in text and len(text) < 10_000
    assert "\x1b" not in shown(selftest_table([a_cell("failed", sentence=hostile)], hostile))


def a_cell(status: CellStatus, *, name: str = "a", sentence: str = "as it is") -> CellResult:
    return CellResult(cell=name, title=f"the {name}", gpu=False, status=status, sentence=sentence)


def test_the_table_says_pass_and_fail_in_words_and_lists_what_was_not_run_once() -> None:
    cells = [
        a_cell("passed", name="one"), a_cell("failed", name="two", sentence="expected 1, seen 2"),
        a_cell("not_run", name="x", sentence="not run: no GPU"),
        a_cell("not_run", name="y", sentence="not run: no GPU"),
    ]  # fmt: skip
    text = shown(selftest_table(cells, "results/b.zip"))
    assert "pass  the one" in text and "FAIL  the two" in text and "expected 1, seen 2" in text
    assert text.count("no GPU") == 1 and "2 cells: x, y" in text
    assert "self-test red: 1 passed, 1 failed, 2 not run" in text and "results/b.zip" in text


def test_undecided_is_not_red_and_says_that_nothing_is_validated() -> None:
    assert summary([a_cell("passed"), a_cell("inconclusive", name="b")]) == (
        "self-test green, but not validated: 1 cell undecided (b): run it again on a quiet machine"
        " · 1 passed, 1 inconclusive"
    )
    assert summary([a_cell("passed"), a_cell("not_judged")]).startswith("self-test incomplete, not validated: 1 cell")
    assert summary([a_cell("passed"), a_cell("failed")]).startswith("self-test red")
