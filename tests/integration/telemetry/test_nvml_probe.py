"""`vtune probe` of a real training on the CPU under a driver of ours; the training plays that it uses a GPU."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from emulated.fake_nvml import GIB, uuid
from support.cli import vtune
from support.light import LIGHT

# What the hooks would write once torch has opened a device, and what the driver would list then.
PLAYS_GPU = """
import json, os, time
def device_is(uuid):
    line = json.dumps({"t": time.monotonic(), "fact": "device", "device": 0, "type": "cuda", "uuid": uuid})
    with open(os.path.join(os.environ["VTUNE_TRIAL"], f"steps-{os.getpid()}.jsonl"), "a") as file:
        file.write(line + "\\n")
def driver_says(**values):
    path = os.environ["FAKE_NVML_STATE"]
    kept = [line for line in open(path) if line.split()[0] not in values]
    with open(path + ".train", "w") as file:
        file.writelines([f"{key} {value}\\n" for key, value in values.items()] + kept)
    os.replace(path + ".train", path)
"""
TRAINING = f"""{LIGHT}
import torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
def step():
    (weight * 1).sum().backward()
    optimizer.step()
    time.sleep(0.05)
"""


@pytest.fixture
def probe(fake_driver, tmp_path: Path):
    def run(body: str, *arguments: str):
        # A folder of its own: a trial keeps to itself whatever its training writes beside the script.
        script = tmp_path / "training" / "train.py"
        script.parent.mkdir()
        script.write_text(PLAYS_GPU + TRAINING + body)
        return vtune(
            "probe", "--json", "--steps", "50", "--results", tmp_path / "results", *arguments, "--", sys.executable,
            script, **fake_driver.env,
        )  # fmt: skip

    return run


@pytest.mark.slow
@pytest.mark.timing
def test_what_the_driver_told_of_the_trainings_device_stands_in_the_record(fake_driver, probe, tmp_path):
    fake_driver.set(count=2, gpu0__util=13, gpu1__used=2 * GIB, gpu1__procs="1:1000:0", gpu1__name="NVIDIA L4",
                    gpu1__total=24 * GIB, gpu1__energy_from=time.time(), gpu1__power_mw=120_000)  # fmt: skip
    said = probe(
        f"driver_says(**{{'gpu1.procs': f'{{os.getpid()}}:{5 * GIB}:70,1:{2 * GIB}:20', 'gpu1.used': {7 * GIB},\n"
        f"    'gpu1.util': 64, 'gpu1.throttle': 4}})\n"
        f"device_is('{uuid(1)}')\nfor _ in range(200): step()\n"
    )
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    (gpu,) = record["gpus"]
    assert (gpu["index"], gpu["name"], gpu["vram_total_bytes"]) == (1, "NVIDIA L4", 24 * GIB)
    assert gpu["util_mean"] == pytest.approx(64, abs=1)
    assert gpu["vram_peak_bytes"] == record["vram_peak_bytes"] == 5 * GIB
    assert gpu["vram_from"] == "the driver, by process"
    assert gpu["others_peak_bytes"] == 2 * GIB
    assert gpu["power_w_mean"] == pytest.approx(120)
    measured_s = record["step_time_s"]["mean"] * record["steps_measured"]
    assert gpu["energy_j"] == pytest.approx(120 * measured_s, rel=0.15)
    assert gpu["throttled"] == {"sw_power_cap": 1.0}
    assert any("others computed 20 % of the time on GPU 1" in note for note in record["notes"])
    machine = json.loads(next((tmp_path / "results").glob("*/machine.json")).read_text())
    assert machine["gpus"] == ["Fake GPU", "NVIDIA L4"]


@pytest.mark.slow
def test_a_gpu_lost_in_mid_trial_is_a_note_and_the_trial_is_kept(fake_driver, probe):
    fake_driver.set(gpu0__used=GIB)
    said = probe(
        f"driver_says(**{{'gpu0.util': 50, 'gpu0.used': {3 * GIB}}})\ndevice_is('{uuid(0)}')\n"
        "for n in range(200):\n    step()\n    if n == 30: driver_says(**{'gpu0.err': 15})\n"
    )
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["status"] == "completed" and record["steps_measured"] >= 50
    (gpu,) = record["gpus"]
    assert "lost" in gpu["unknown"]["device"]
    assert any("GPU 0: the GPU is lost" in note for note in record["notes"])
    assert (gpu["vram_peak_bytes"], gpu["vram_from"]) == (2 * GIB, "the device, less what was used before the trial")


@pytest.mark.slow
def test_a_training_over_the_vram_limit_is_ended_and_named(fake_driver, probe):
    fake_driver.set(gpu0__total=10 * GIB)
    said = probe(
        f"device_is('{uuid(0)}')\nfor n in range(2000):\n    step()\n"
        f"    if n == 20: driver_says(**{{'gpu0.procs': f'{{os.getpid()}}:{9 * GIB}:70', 'gpu0.used': {9 * GIB}}})\n",
        "--steps", "100", "--vram-limit", "80%",
    )  # fmt: skip
    assert said.code == 4, said.stderr
    assert said.json["trial"]["status"] == "out_of_vram"
    assert "9 GiB of VRAM in use on GPU 0, over the limit of 8 GiB" in said.json["trial"]["detail"]


@pytest.mark.slow
def test_a_training_that_uses_no_gpu_is_not_charged_with_a_neighbours(fake_driver, probe):
    fake_driver.set(gpu0__used=GIB, gpu0__util=90)
    said = probe(
        f"for n in range(200):\n    step()\n    if n == 30: driver_says(**{{'gpu0.used': {7 * GIB}}})\n",
        "--vram-limit", "2GiB",
    )  # fmt: skip
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["vram_peak_bytes"] is None
    assert "told no device" in record["gpus"][0]["unknown"]["vram"]
    assert any("the VRAM limit was not judged: the training has told no device" in note for note in record["notes"])


@pytest.mark.slow
def test_a_driver_that_does_not_work_is_a_note_and_the_training_is_measured(fake_driver, probe):
    fake_driver.set(err__nvmlInitWithFlags=18)
    said = probe("for n in range(200): step()\n", "--vram-limit", "50%")
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["gpus"] == [] and record["samples_per_s"] is None and record["steps_measured"] >= 50
    assert any("no GPU was watched: the NVIDIA driver and its library are of different" in n for n in record["notes"])
    assert "the VRAM limit was not judged: no GPU was seen" in record["notes"]


@pytest.mark.slow
def test_a_driver_that_hangs_in_mid_trial_costs_its_numbers_only(fake_driver, probe):
    said = probe(
        f"device_is('{uuid(0)}')\nfor n in range(300):\n    step()\n"
        "    if n == 10: driver_says(**{'gpu0.hang.nvmlDeviceGetMemoryInfo_v2': 3600})\n",
        "--steps", "120",
    )  # fmt: skip
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["status"] == "completed"
    assert "hangs" in record["gpus"][0]["unknown"]["device"]
