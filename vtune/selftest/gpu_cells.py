"""The cells that need a GPU: their runs and verdicts put together. Not yet run on a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import mean

from vtune.domain.machine import bare_uuid
from vtune.domain.machine_use import GpuUse
from vtune.domain.selftest import Verdict
from vtune.selftest import gpu_verdicts, verdicts
from vtune.selftest.cells import BATCH, RUNS, Cell, instrumentation, of_record, rate_of
from vtune.selftest.cpu_runs import LOADERS, turns_run
from vtune.selftest.gpu_runs import DEVICE, DUTIES, GPU_RUNS, PINNED, SLOW_RANK
from vtune.selftest.readings import KnownTrial, Records

STEP_MS = 10.0
Judge = Callable[[Records], Verdict]


def _allocation(records: Records) -> Verdict:
    seen = records.json("gpu-allocation", "allocation.json")
    if seen["why_none"] is not None:
        return verdicts.inconclusive(f"the devices' memory cannot be read from outside: {seen['why_none']}")
    uuid = bare_uuid(seen["uuid"]) if seen["uuid"] else None
    return gpu_verdicts.allocation(uuid, {bare_uuid(one["uuid"]): one for one in seen["devices"]}, seen["known_bytes"])


def _on_device(judge: Callable[[KnownTrial], Verdict], run: str) -> Judge:
    """The trial must have completed, and on a device: a training that fell back to the CPU shows nothing."""

    def judged(records: Records) -> Verdict:
        known = records.trial(run)
        incomplete = of_record(known.record)
        if incomplete is not None:
            return incomplete
        if known.truth.about.get("device") in (None, "cpu"):
            return verdicts.not_carried_out("the training found no device and ran on the CPU")
        return judge(known)

    return judged


def _duty(known: KnownTrial) -> Verdict:
    steps = known.truth.steps
    step_s = (float(steps[-1]["stepped"]) - float(steps[0]["stepped"])) / max(1, len(steps) - 1)
    share = float(known.truth.about["kernel_s"]) / step_s
    measured = known.record.measurement
    events = None
    if measured.device_step_s is not None and measured.device_gap_s is not None:
        events = measured.device_step_s / (measured.device_step_s + measured.device_gap_s)
    use = _own_device(known)
    by_driver = use.util_mean / 100 if use is not None and use.util_mean is not None else None
    return gpu_verdicts.duty(share, events, by_driver, mig=any(gpu.mig for gpu in known.files.gpus))


def _own_device(known: KnownTrial) -> GpuUse | None:
    uuid = known.truth.about.get("uuid")
    found = [use for use in known.record.measurement.gpus if uuid and bare_uuid(use.uuid) == bare_uuid(str(uuid))]
    return found[0] if found else None


def _out_of_memory(records: Records) -> Verdict:
    record = records.trial("gpu-oom").record
    return gpu_verdicts.out_of_memory(record.status.value, record.detail)


def _host(known: KnownTrial) -> Verdict:
    diagnosis = known.record.diagnosis
    return gpu_verdicts.bottleneck(diagnosis.bottleneck, "host", diagnosis.verdict)


def _pinned(known: KnownTrial) -> Verdict:
    # Beside what was asked, a sample holds eight numbers of its own.
    batch = BATCH * (PINNED["item_kib"] * 1024 + 32)
    peak = known.truth.end.get("pinned_peak_bytes")
    return gpu_verdicts.pinned(peak, workers=PINNED["workers"], prefetch=PINNED["prefetch"], batch_bytes=batch)


def _skipped(known: KnownTrial) -> Verdict:
    return gpu_verdicts.skipped(known.record.measurement.skipped_steps, known.truth.overflows)


def _precision(expected: Mapping[str, object]) -> Callable[[KnownTrial], Verdict]:
    return lambda known: gpu_verdicts.precision(known.record.measurement.precision, expected)


def _vram_back(records: Records) -> Verdict:
    seen = records.json("gpu-kill", "vram.json")
    if seen["why_none"] is not None:
        return verdicts.inconclusive(f"the devices' memory cannot be read from outside: {seen['why_none']}")
    # The device on which most came and went: which one that is, another cell shows.
    own = max(seen["devices"], key=lambda one: (one["held"] or 0) - (one["before"] or 0))
    return gpu_verdicts.vram_back(seen["seconds"], own["before"], own["held"], own["left"])


def _straggler(records: Records) -> Verdict:
    known = records.trial("gpu-ranks")
    return of_record(known.record) or gpu_verdicts.straggler(busy_by_rank(known), SLOW_RANK)


def busy_by_rank(known: KnownTrial) -> dict[int, float]:
    log = known.files.log
    ranks = {fact.pid: fact.data["rank"] for fact in log.facts_named("hello") if isinstance(fact.data.get("rank"), int)}
    busy: dict[int, list[float]] = defaultdict(list)
    for step in log.device_steps:
        if step.pid in ranks:
            busy[ranks[step.pid]].append(step.busy_s)
    return {rank: mean(seconds) for rank, seconds in busy.items()}


def _cell(
    name: str, title: str, run: str, judge: Judge, *, gpus: int = 1, needs: tuple[str, ...] = (), times: bool = False
) -> Cell:
    return Cell(
        name=name, title=title, runs=(run,), judge=judge, gpu=True, gpus_needed=gpus, needs=needs, compares_times=times
    )


GPU_CELLS: tuple[Cell, ...] = (
    _cell("gpu_allocation", "a known allocation is seen on the right device", "gpu-allocation", _allocation),
    *(
        _cell(f"gpu_duty_{share}", f"a device that works {share} % of the time", run, _on_device(_duty, run))
        for share, run in ((share, f"gpu-duty-{share}") for share in DUTIES)
    ),
    _cell(
        "gpu_instrumentation",
        "what watching adds to a step on a device",
        "gpu-turns",
        instrumentation("gpu-turns"),
        times=True,
    ),
    _cell("gpu_oom", "running out of device memory is named", "gpu-oom", _out_of_memory),
    *(
        _cell(
            f"gpu_rate_{number}",
            f"known loader × kernel: {known['workers']} workers, {known['load_ms']} × {known['compute_ms']} ms",
            f"gpu-{run}",
            rate_of(f"gpu-{run}", run, on_device=True),
            needs=("clocks",),
        )
        for number, (run, known) in enumerate(LOADERS.items(), 1)
    ),
    _cell("gpu_host", "a loss on the CPU is called host", "gpu-host", _on_device(_host, "gpu-host")),
    _cell("gpu_pinned", "pinned memory against W × P", "gpu-pinned", _on_device(_pinned, "gpu-pinned")),
    _cell("gpu_fp16", "steps that a scaler leaves out are counted", "gpu-fp16", _on_device(_skipped, "gpu-fp16")),
    _cell(
        "gpu_bf16",
        "bf16 is read back",
        "gpu-bf16",
        _on_device(_precision({"autocast": True, "autocast_dtype": "bfloat16"}), "gpu-bf16"),
    ),
    _cell("gpu_tf32", "TF32 is read back", "gpu-tf32", _on_device(_precision({"tf32_matmul": True}), "gpu-tf32")),
    _cell("gpu_killed", "a killed training gives its device memory back", "gpu-kill", _vram_back),
    _cell("gpu_straggler", "the slow one of two devices is named", "gpu-ranks", _straggler, gpus=2),
)

ALL_RUNS = {
    **RUNS,
    **GPU_RUNS,
    "gpu-turns": turns_run("gpu-turns", arguments=[f"--compute-ms={STEP_MS}", DEVICE]),
}
