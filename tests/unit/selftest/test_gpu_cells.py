"""The GPU cells on records as a GPU would leave them: written by the tests, for there is no GPU here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.trial_writer import TrialWriter
from vtune.domain.selftest import CellResult
from vtune.selftest.gpu_cells import ALL_RUNS, GPU_CELLS
from vtune.selftest.readings import Records
from vtune.selftest.run import judge_cells
from vtune.selftest.session import ALL_CELLS

UUID = "6d8e2f10-1234-4abc-9def-0123456789ab"
OTHER = "7d8e2f10-1234-4abc-9def-0123456789ab"
STEPS = 60
GIB = 2**30


class Recorded:
    """The folder of one run, with a training of 50 ms a step."""

    def __init__(self, root: Path, run: str) -> None:
        self.folder = root / run
        self.writer = TrialWriter(self.folder / "trial")
        self.write("run.json", {"window_steps": 50})
        spec = {"trial": 1, "origin": "probe", "reason": run, "command": ["python"], "settings": {}}
        self.write("trial/spec.json", spec)
        self.outcome(ended_by="window", exit_code=0)

    def write(self, name: str, value: Any) -> None:
        (self.folder / name).write_text(json.dumps(value))

    def outcome(self, **fields: Any) -> None:
        self.write("trial/outcome.json", {"signal": None, "seconds": 5.0, **fields})

    def truth(self, *more: dict[str, Any], step_s: float = 0.05, **about: Any) -> None:
        known = {"kind": "about", "device": "cuda", "uuid": UUID, "kernel_s": 0.01, **about}
        steps = [
            {"kind": "step", "asked": n * step_s, "got": n * step_s + 0.02, "stepped": (n + 1) * step_s, "samples": 4,
             "worker": -1}
            for n in range(STEPS)
        ]  # fmt: skip
        rows = [known, *steps, *more]
        (self.folder / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def training(self, step_s: float = 0.05, busy_s: float = 0.01, pid: int = 4000, rank: int | None = None) -> None:
        self.writer.fact("hello", pid, argv=["training.py"], torch="2.13.0", rank=rank)
        self.writer.loader(pid=pid)
        self.writer.begin_pass(workers=0, prefetch=0, batch=4, length=1000, pid=pid)
        for number in range(STEPS):
            begun = number * step_s
            self.writer.deliver(begun, begun + 0.02, number, samples=4, pid=pid)
            self.writer.step(begun + step_s, pid=pid)
            gap = step_s - busy_s
            self.writer.record(5, pid=pid, source=rank or 0, index=number + 1, a=busy_s, b=begun + step_s, c=gap)

    def utilization(self, percent: float) -> None:
        lines = [
            {"t_s": t / 5, "processes": [], "ram_bytes": None, "shm_used_bytes": None, "others_cores": 0.0,
             "ram_available_bytes": None, "gpus": [{"uuid": f"GPU-{UUID}", "util_percent": percent}]}
            for t in range(1, 16)
        ]  # fmt: skip
        (self.folder / "trial/telemetry.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.write("trial/gpus.json", [{"index": 0, "uuid": f"GPU-{UUID}", "name": "a GPU"}])


def judged(root: Path, name: str) -> CellResult:
    [cell] = judge_cells(Records(root), [cell for cell in GPU_CELLS if cell.name == name])
    return cell


def test_every_cell_names_runs_that_exist_and_no_two_cells_share_a_name() -> None:
    names = [cell.name for cell in ALL_CELLS]
    assert len(names) == len(set(names))
    assert {run for cell in ALL_CELLS for run in cell.runs} == set(ALL_RUNS)
    assert {need for cell in ALL_CELLS for need in cell.needs} <= set(names)
    assert all(cell.gpu == (cell.gpus_needed > 0) for cell in ALL_CELLS)


def test_an_allocation_is_found_by_uuid_whatever_the_order_and_prefix(tmp_path: Path) -> None:
    devices = [
        {"uuid": f"GPU-{OTHER}", "open": 0, "held": 0, "freed": 0},
        {"uuid": f"GPU-{UUID.upper()}", "open": 5 * GIB, "held": 6 * GIB, "freed": 5 * GIB},
    ]
    run = Recorded(tmp_path, "gpu-allocation")
    run.write("allocation.json", {"uuid": UUID, "known_bytes": GIB, "devices": devices, "why_none": None})
    assert judged(tmp_path, "gpu_allocation").status == "passed"
    run.write("allocation.json", {"uuid": OTHER, "known_bytes": GIB, "devices": devices, "why_none": None})
    assert judged(tmp_path, "gpu_allocation").status == "failed"


def test_a_driver_that_is_not_there_decides_nothing(tmp_path: Path) -> None:
    run = Recorded(tmp_path, "gpu-allocation")
    run.write("allocation.json", {"uuid": UUID, "known_bytes": GIB, "devices": [], "why_none": "no library"})
    cell = judged(tmp_path, "gpu_allocation")
    assert cell.status == "inconclusive" and "no library" in cell.sentence


@pytest.mark.parametrize(("busy_s", "percent", "status"), [
    (0.010, 22.0, "passed"), (0.030, 22.0, "failed"), (0.010, 95.0, "failed"),
])  # fmt: skip
def test_a_known_duty_is_held_against_events_and_driver(
    tmp_path: Path, busy_s: float, percent: float, status: str
) -> None:
    run = Recorded(tmp_path, "gpu-duty-20")
    run.truth()
    run.training(busy_s=busy_s)
    run.utilization(percent)
    cell = judged(tmp_path, "gpu_duty_20")
    assert cell.status == status and "known 20%" in cell.sentence


def test_a_training_that_fell_back_to_the_cpu_shows_nothing_of_a_gpu(tmp_path: Path) -> None:
    run = Recorded(tmp_path, "gpu-duty-20")
    run.truth(device="cpu")
    run.training()
    cell = judged(tmp_path, "gpu_duty_20")
    assert cell.status == "not_judged" and "ran on the CPU" in cell.sentence


def test_out_of_device_memory_is_read_from_the_trainings_last_words(tmp_path: Path) -> None:
    run = Recorded(tmp_path, "gpu-oom")
    run.truth()
    run.training()
    run.outcome(ended_by="itself", exit_code=1)
    words = run.folder / "trial" / "stderr.log"
    words.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.\n")
    assert judged(tmp_path, "gpu_oom").status == "passed"
    words.write_text("ValueError: something else\n")
    assert judged(tmp_path, "gpu_oom").status == "failed"


def test_pinned_memory_is_what_the_training_says_of_it_at_its_end(tmp_path: Path) -> None:
    run = Recorded(tmp_path, "gpu-pinned")
    run.training()
    # Four samples of 3 MiB are 16 MiB when rounded up: eight in the queue, two more under way.
    for count, status in ((8, "passed"), (10, "passed"), (14, "failed")):
        run.truth({"kind": "end", "pinned_peak_bytes": count * 16 * 2**20})
        assert judged(tmp_path, "gpu_pinned").status == status
    run.truth({"kind": "end"})
    assert judged(tmp_path, "gpu_pinned").status == "inconclusive"


def test_skipped_steps_and_precision_come_from_the_facts(tmp_path: Path) -> None:
    for name in ("gpu-fp16", "gpu-bf16"):
        run = Recorded(tmp_path, name)
        run.truth(*[{"kind": "overflow"}] * 7)
        run.training()
        run.writer.fact("scaler", t=1.0, skipped=7)
        run.writer.fact("precision", t=0.5, autocast=True, autocast_dtype="bfloat16", tf32_matmul=False)
    assert judged(tmp_path, "gpu_fp16").status == "passed"
    assert judged(tmp_path, "gpu_bf16").status == "passed"
    run = Recorded(tmp_path, "gpu-tf32")
    run.truth()
    run.training()
    run.writer.fact("precision", t=0.5, autocast=False, tf32_matmul=False)
    assert judged(tmp_path, "gpu_tf32").sentence == "expected tf32_matmul True, seen False"


def test_device_memory_after_a_kill_is_held_against_the_baseline(tmp_path: Path) -> None:
    run = Recorded(tmp_path, "gpu-kill")
    devices = [
        {"uuid": OTHER, "before": GIB, "held": GIB, "left": GIB},
        {"uuid": UUID, "before": 0, "held": GIB, "left": 0},
    ]
    run.write("vram.json", {"seconds": 1.4, "devices": devices, "why_none": None})
    assert judged(tmp_path, "gpu_killed").status == "passed"
    devices[1]["left"] = GIB
    run.write("vram.json", {"seconds": None, "devices": devices, "why_none": None})
    assert judged(tmp_path, "gpu_killed").status == "failed"


@pytest.mark.parametrize(("slow", "status"), [(1, "passed"), (0, "failed")])
def test_the_slow_rank_is_named_by_its_device_seconds(tmp_path: Path, slow: int, status: str) -> None:
    run = Recorded(tmp_path, "gpu-ranks")
    for rank in (0, 1):
        run.training(busy_s=0.04 if rank == slow else 0.02, pid=4000 + rank, rank=rank)
    cell = judged(tmp_path, "gpu_straggler")
    assert cell.status == status and "rank 0" in cell.sentence and "rank 1" in cell.sentence


@pytest.mark.parametrize(("wait_s", "status"), [(0.001, "passed"), (0.044, "failed")])
def test_an_injected_loss_on_the_cpu_must_be_called_host(tmp_path: Path, wait_s: float, status: str) -> None:
    """The device works for 5 of 50 ms; the rest is the main process' own, or it waits for data."""
    run = Recorded(tmp_path, "gpu-host")
    run.truth()
    writer = run.writer
    writer.hello()
    writer.loader()
    writer.begin_pass(workers=0, prefetch=0, batch=4, length=1000)
    for number in range(STEPS):
        begun = number * 0.05
        writer.deliver(begun, begun + wait_s, number, samples=4)
        writer.step(begun + 0.05)
        writer.record(5, index=number + 1, a=0.005, b=begun + 0.05, c=0.045)
    assert judged(tmp_path, "gpu_host").status == status
