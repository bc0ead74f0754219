"""A training whose loader and whose steps take a known time, and which keeps its own count of both.

On the CPU a step's work is a sleep; on a device it is a kernel that was timed before the training began. One file
without imports of its own, so that any Python with torch runs it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from typing import IO, Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

# Not the clock that a profiler would take.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_REALTIME)
EXAMPLES = 1_000_000
FEATURES = 8
KERNEL_SIZE = 2048
RUN_AHEAD = 2


def main() -> None:
    asked = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if asked.tf32:
        torch.set_float32_matmul_precision("high")
    device = chosen_device(asked.device)
    if asked.memory_fraction and device.type != "cpu":
        torch.get_device_module(device).set_per_process_memory_fraction(asked.memory_fraction)
    training = Training(asked, device)
    try:
        training.in_turns() if asked.turns else training.steps(asked.steps)
    finally:
        training.truth.write("end", **at_the_end(device))
        if torch.distributed.is_initialized():
            # Its threads would be found running at exit, which aborts the process now and then. The model's wrapper
            # holds the group as well.
            del training
            gc.collect()
            torch.distributed.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", help="file for this script's own count")
    parser.add_argument("--device", default="cpu", help="cpu, or auto for the accelerator that torch finds")
    parser.add_argument("--steps", type=int, default=EXAMPLES)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--item-kib", type=int, default=0, help="further bytes in each sample")
    parser.add_argument("--load-ms", type=float, default=0.0, help="of a batch, in the worker")
    parser.add_argument("--compute-ms", type=float, default=0.0, help="of a step, on the device")
    parser.add_argument("--host-ms", type=float, default=0.0, help="of a step, on the main process' core")
    parser.add_argument("--slow-rank", type=int, default=-1, help="the rank that computes twice as long")
    parser.add_argument("--overflows", type=int, default=-1, help="steps with an infinite loss under a gradient scaler")
    parser.add_argument("--autocast", choices=("bfloat16", "float16"))
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--memory-fraction", type=float, default=0.0)
    parser.add_argument("--grow-mib", type=int, default=0, help="device memory that each step keeps")
    parser.add_argument("--hold-mib", type=int, default=0, help="device memory that is held all the time")
    parser.add_argument("--turns", action="store_true", help="run as many steps as each line of stdin says")
    return parser.parse_args()


def chosen_device(asked: str) -> torch.device:
    found = torch.accelerator.current_accelerator() if asked == "auto" and torch.accelerator.is_available() else None
    if found is None:
        return torch.device("cpu")
    return torch.device(found.type, int(os.environ.get("LOCAL_RANK", "0")))


class Samples(Dataset[torch.Tensor]):
    """Each sample takes its share of the batch's time and says which worker made it."""

    def __init__(self, seconds: float, item_bytes: int) -> None:
        self.seconds = seconds
        self.floats = FEATURES + item_bytes // 4

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        worker = get_worker_info()
        return torch.full((self.floats,), float(worker.id if worker is not None else -1))


class Truth:
    """The training's own count, one JSON object a line."""

    def __init__(self, path: str | None) -> None:
        rank = os.environ.get("RANK")
        path = f"{path}.{rank}" if path and rank else path
        self.file: IO[str] | None = open(path, "w", encoding="ascii") if path else None  # noqa: SIM115

    def write(self, kind: str, **fields: Any) -> None:
        if self.file is not None:
            self.file.write(json.dumps({"kind": kind, **fields}) + "\n")
            self.file.flush()


class Training:
    def __init__(self, asked: argparse.Namespace, device: torch.device) -> None:
        self.asked = asked
        self.device = device
        self.rank = int(os.environ.get("RANK", "0"))
        self.truth = Truth(asked.truth)
        self.model: torch.nn.Module = torch.nn.Linear(FEATURES, 1).to(device)
        if "WORLD_SIZE" in os.environ:
            torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.optimizer.register_step_post_hook(self.stepped)
        self.scaler = torch.amp.GradScaler(device.type) if asked.overflows >= 0 else None
        loader = DataLoader(
            Samples(asked.load_ms / 1e3 / asked.batch, asked.item_kib * 1024),
            batch_size=asked.batch,
            num_workers=asked.workers,
            prefetch_factor=asked.prefetch if asked.workers else None,
            pin_memory=asked.pin,
        )
        slower = 2.0 if self.rank == asked.slow_rank else 1.0
        self.work = Work(device, asked.compute_ms / 1e3 * slower)
        self.kept: list[torch.Tensor] = []
        if asked.hold_mib:
            self.kept.append(torch.ones(asked.hold_mib * 2**18, device=device))
        self.scratch = tempfile.TemporaryFile()  # noqa: SIM115
        self.scratch.write(bytes(2**16))
        self.row: dict[str, Any] = {}
        self.truth.write("about", **about(asked, device), kernel_s=self.work.seconds)
        self.batches = iter(loader)

    def in_turns(self) -> None:
        """Waits for its turn; says how long the steps took by its own clock and on its own core."""
        self.steps(20)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            begun, cpu = time.clock_gettime(CLOCK), time.process_time()
            self.steps(int(line))
            self.work.wait()
            told = {"seconds": time.clock_gettime(CLOCK) - begun, "cpu_s": time.process_time() - cpu}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()

    def steps(self, count: int) -> None:
        for _ in range(count):
            asked = time.clock_gettime(CLOCK)
            batch = next(self.batches)
            got = time.clock_gettime(CLOCK)
            self.row = {"asked": asked, "got": got, "samples": len(batch), "worker": int(batch[0, 0])}
            self.step(batch.to(self.device, non_blocking=True))

    def step(self, batch: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(
            self.device.type, getattr(torch, self.asked.autocast or "float32"), bool(self.asked.autocast)
        ):
            loss = self.model(batch[:, :FEATURES]).float().square().mean()
        self.work.run()
        spin(self.asked.host_ms / 1e3)
        if self.asked.grow_mib:
            self.kept.append(torch.ones(self.asked.grow_mib * 2**18, device=self.device))
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
            return
        if self.asked.overflows > 0:
            self.asked.overflows -= 1
            self.truth.write("overflow")
            loss = loss * float("inf")
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def stepped(self, *_: object) -> None:
        self.truth.write("step", stepped=time.clock_gettime(CLOCK), **self.row)


class Work:
    """A step's computing: a sleep, or as many matrix products on the device as take the time that was asked."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        self.device = device
        self.seconds = seconds
        self.products = 0
        if device.type == "cpu" or not seconds:
            return
        self.under_way: list[Any] = []
        self.matrix = torch.rand(KERNEL_SIZE, KERNEL_SIZE, device=device) / KERNEL_SIZE
        self.events = torch.get_device_module(device).Event
        self.timed(50)
        one = self.timed(50) / 50
        self.products = max(1, round(seconds / one))
        self.seconds = min(self.timed(self.products) for _ in range(5))

    def run(self) -> None:
        if self.device.type == "cpu":
            time.sleep(self.seconds)
        if not self.products:
            return
        for _ in range(self.products):
            torch.mm(self.matrix, self.matrix)
        # As in a loop that looks at its loss now and then: the host runs ahead of the device, but not without end.
        self.under_way.append(self.events())
        self.under_way[-1].record()
        if len(self.under_way) > RUN_AHEAD:
            self.under_way.pop(0).synchronize()

    def timed(self, products: int) -> float:
        begin, end = self.events(enable_timing=True), self.events(enable_timing=True)
        begin.record()
        for _ in range(products):
            torch.mm(self.matrix, self.matrix)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def wait(self) -> None:
        if self.device.type != "cpu":
            torch.get_device_module(self.device).synchronize()


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def about(asked: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    told: dict[str, Any] = {
        "torch": torch.__version__,
        "device": device.type,
        "autocast": asked.autocast,
        "matmul_precision": torch.get_float32_matmul_precision(),
    }
    if device.type != "cpu":
        properties = torch.get_device_module(device).get_device_properties(device)
        told |= {"index": device.index, "name": properties.name, "uuid": str(getattr(properties, "uuid", "")) or None}
        told |= {"total_bytes": properties.total_memory, "devices": torch.accelerator.device_count()}
    return told


def at_the_end(device: torch.device) -> dict[str, Any]:
    """What the allocators count; the peak of pinned memory is told by newer torch only."""
    if device.type != "cuda":
        return {}
    told: dict[str, Any] = {"reserved_peak_bytes": torch.cuda.max_memory_reserved(device)}
    pinned = getattr(torch.cuda, "host_memory_stats", None)
    if pinned is not None:
        told["pinned_peak_bytes"] = pinned().get("allocated_bytes.peak")
    return told


if __name__ == "__main__":
    main()
