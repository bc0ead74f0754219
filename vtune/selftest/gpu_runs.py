"""The runs that need a GPU. Written for one, and not yet run on one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from vtune.domain.machine import bare_uuid
from vtune.execution.running import RunningTrial
from vtune.journal.files import dump_json
from vtune.journal.paths import TrialPaths
from vtune.selftest.bench import SCRIPTS, Bench
from vtune.selftest.cpu_runs import LOADER_STEPS, LOADERS, kill_stepping, loader_arguments
from vtune.selftest.gpu_verdicts import VRAM_SLACK_BYTES
from vtune.selftest.verdicts import GONE_WITHIN_S
from vtune.telemetry.nvml import devices

DEVICE = "--device=auto"
DUTIES = (20, 50, 80)
# Long against a kernel's launch, short against the driver's own samples.
DUTY_STEP_MS = 50
# The driver's counters lag behind by up to a second.
SETTLE_S = 1.5
HOLD_MIB = 512
OVERFLOWS = 7
PINNED = {"workers": 4, "prefetch": 2, "item_kib": 3072}
SLOW_RANK = 1


def on_device(
    name: str, arguments: list[str], *, steps: int = LOADER_STEPS, command: tuple[str, ...] = ()
) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        bench.trial(name, [*arguments, DEVICE], steps=steps, command=command)

    return run


def allocation_run(bench: Bench) -> None:
    folder = bench.folder("gpu-allocation")
    used: dict[str, dict[str, Any]] = {}
    told: dict[str, Any] = {}
    why_none = None
    with bench.script(SCRIPTS / "device_memory.py") as script:
        for stage in ("open", "held", "freed"):
            told = script.answer()
            time.sleep(SETTLE_S)
            now, why_none = used_bytes()
            for uuid, in_use in now.items():
                used.setdefault(uuid, {"uuid": uuid})[stage] = in_use
            script.tell("")
    values = {"uuid": told.get("uuid"), "known_bytes": told.get("known_bytes"), "devices": list(used.values())}
    dump_json(folder / "allocation.json", {**values, "why_none": why_none})
    bench.note(folder)


def vram_kill_run(bench: Bench) -> None:
    arguments = ["--workers=2", "--load-ms=10", "--compute-ms=10", f"--hold-mib={HOLD_MIB}", DEVICE]
    before, why_none = used_bytes()
    held: dict[str, int | None] = {}
    left: dict[str, int | None] = {}

    def look(trial: RunningTrial, paths: TrialPaths) -> None:
        time.sleep(SETTLE_S)
        held.update(used_bytes()[0])
        left.update(held)

    def is_gone() -> bool:
        left.update(used_bytes()[0])
        return _is_back(before, left)

    patience_s = GONE_WITHIN_S + SETTLE_S
    killed = kill_stepping(bench, "gpu-kill", arguments, look, is_gone=is_gone, patience_s=patience_s)
    rows = [{"uuid": uuid, "before": before.get(uuid), "held": held[uuid], "left": left.get(uuid)} for uuid in held]
    dump_json(killed.folder / "vram.json", {"seconds": killed.seconds, "devices": rows, "why_none": why_none})
    bench.note(killed.folder)


def _is_back(before: Mapping[str, int | None], left: Mapping[str, int | None]) -> bool:
    return all((now or 0) <= (before.get(uuid) or 0) + VRAM_SLACK_BYTES for uuid, now in left.items())


def used_bytes() -> tuple[dict[str, int | None], str | None]:
    """By bare uuid; and why nothing can be read."""
    read = devices()
    return {bare_uuid(one.gpu.uuid): one.used_bytes for one in read.devices}, read.why_none


def loader_on_device(name: str) -> Callable[[Bench], None]:
    return on_device(f"gpu-{name}", loader_arguments(LOADERS[name]))


def duty_run(percent: int) -> Callable[[Bench], None]:
    kernel_ms = DUTY_STEP_MS * percent / 100
    return on_device(f"gpu-duty-{percent}", [f"--load-ms={DUTY_STEP_MS}", f"--compute-ms={kernel_ms}"], steps=100)


RANKS = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")

GPU_RUNS: dict[str, Callable[[Bench], None]] = {
    "gpu-allocation": allocation_run,
    **{f"gpu-duty-{percent}": duty_run(percent) for percent in DUTIES},
    "gpu-oom": on_device("gpu-oom", ["--memory-fraction=0.2", "--grow-mib=512", "--compute-ms=1"], steps=5000),
    **{f"gpu-{name}": loader_on_device(name) for name in LOADERS},
    "gpu-host": on_device("gpu-host", ["--workers=2", "--load-ms=5", "--compute-ms=5", "--host-ms=25"]),
    "gpu-pinned": on_device("gpu-pinned", [*loader_arguments(PINNED), "--pin", "--load-ms=4", "--compute-ms=40"]),
    "gpu-fp16": on_device("gpu-fp16", [f"--overflows={OVERFLOWS}", "--autocast=float16", "--compute-ms=10"]),
    "gpu-bf16": on_device("gpu-bf16", ["--autocast=bfloat16", "--compute-ms=10"]),
    "gpu-tf32": on_device("gpu-tf32", ["--tf32", "--compute-ms=10"]),
    "gpu-kill": vram_kill_run,
    "gpu-ranks": on_device("gpu-ranks", ["--compute-ms=20", f"--slow-rank={SLOW_RANK}"], command=RANKS),
}
