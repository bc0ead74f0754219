"""`host` told from `data`: the same 80 ms once in the data set, once in a loss on the CPU, once in logging.

There is no GPU here: the device is an emulated one, whose kernels are durations on a timeline beside the CPU's own, and
its driver a library of ours that says how busy it was. Both are told in the table. Without any device the main
process does the mathematics, too, and is late where more than half of its own time is neither model nor optimizer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from launches import HERE, ROOT, Bench, Failed
from table import Claim

SCRIPT = HERE / "accelerated.py"
WHERE = {"data": "the data set", "loss": "a loss on the CPU", "logging": "logging", "nothing": "nowhere"}
# 80 ms beside a model of 20 ms are most of a step: the same answers, whether a device idles meanwhile or none is there.
EXPECTED = {
    (False, "data"): ("data",),
    (False, "loss"): ("host",),
    (False, "logging"): ("host",),
    (False, "nothing"): ("compute", "balanced"),
    (True, "data"): ("data",),
    (True, "loss"): ("host",),
    (True, "logging"): ("host",),
    (True, "nothing"): ("compute",),
}
SECONDS = 12.0


def measure(bench: Bench) -> dict[str, Any]:
    with_device = {"PYTHONPATH": str(ROOT / "benchmarks"), **driver(bench.scratch)}
    cases = [(cpu_only, where) for cpu_only in (False, True) for where in WHERE]
    cases = cases[:2] if bench.quick else cases
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for number, (cpu_only, where) in enumerate(cases):
        bench.tell(f"{number + 1}/{len(cases)} {where}; about {(len(cases) - number) * SECONDS / 60:.0f} min left")
        command = [sys.executable, str(SCRIPT), "--in", where, *(["--cpu-only"] if cpu_only else [])]
        try:
            env = {"PYTHONPATH": str(ROOT / "benchmarks")} if cpu_only else with_device
            probe = bench.probe(f"host-{number}", command, env=env)
        except Failed as failure:
            failures.append(f"{where}: {failure}")
            bench.tell(failures[-1])
            continue
        named = ("bottleneck", "samples_per_s", "compute_samples_per_s", "loader_samples_per_s")
        shares = ("data_wait_fraction", "host_fraction", "outside_fraction", "device_step_s", "device_gap_s")
        row = {"where": where, "cpu_only": cpu_only, "verdict": probe.said.get("verdict")}
        rows.append({**row, **{name: probe.trial.get(name) for name in (*named, *shares)}})
        bench.keep({"rows": rows, "failures": failures})
    return {"rows": rows, "failures": failures}


def driver(folder: Path) -> dict[str, str]:
    """The environment in which NVIDIA's library is the emulated one, with one device."""
    sys.path.append(str(ROOT / "benchmarks"))
    from emulated.fake_nvml import FakeDriver, NoCompiler, build

    try:
        fake = FakeDriver(build(folder), folder / "nvml-state")
    except NoCompiler as error:
        raise Failed(str(error)) from None
    fake.set(count=1, gpu0__total=16 * 2**30, gpu0__name="Emulated GPU")
    return fake.env


def claims(data: dict[str, Any]) -> list[Claim]:
    found = []
    for row in data["rows"]:
        expected = EXPECTED[row["cpu_only"], row["where"]]
        device = "CPU only" if row["cpu_only"] else "emulated device"
        what = f"80 ms in {WHERE[row['where']]}, {device}" if row["where"] != "nothing" else f"no 80 ms, {device}"
        found.append(Claim(what, " or ".join(expected), str(row["bottleneck"]), row["bottleneck"] in expected))
    return found


def lines(data: dict[str, Any]) -> list[str]:
    out = [
        "**Emulated**: no GPU was there. The device is 20 ms of kernels a step on a timeline of their own, its driver a"
        " library of ours that tells how busy that timeline was.",
        "",
        "| 80 ms in | device | verdict | waits for data | device idles for the host | outside model and optimizer"
        " | samples/s | data for free |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        out.append(
            f"| {WHERE[row['where']]} | {'none' if row['cpu_only'] else 'emulated'} | {row['bottleneck']}"
            f" | {_share(row['data_wait_fraction'])} | {_share(row['host_fraction'])}"
            f" | {_share(row.get('outside_fraction'))}"
            f" | {_rate(row['samples_per_s'])} | {_rate(row['compute_samples_per_s'])} |"
        )
    return out


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"
