"""The sampler with the real nvidia-ml-py, against a driver's library whose devices are known."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time

import pytest

from emulated.fake_nvml import GIB, uuid
from vtune.telemetry.nvml import devices

# Beyond any pid of Linux: a process of the host, as it is seen from a container.
FOREIGN = 2**22 + 7
# A training, and its eight workers.
NINE = list(range(4242, 4251))


def of(told, gpu):
    return [one for _, one in told["samples"] if one["uuid"].endswith(uuid(gpu)[-12:])]


def known(samples, name):
    return [one[name] for one in samples if one[name] is not None]


def test_before_the_training_tells_all_devices_are_looked_at(fake_driver, run_sampler):
    fake_driver.set(count=2, gpu0__used=3 * GIB, gpu1__used=GIB, gpu1__name="NVIDIA H100", gpu1__total=80 * GIB)
    first = run_sampler(fake_driver).first
    assert [one["used_bytes"] for one in first["samples"]] == [3 * GIB, GIB]
    assert [gpu["name"] for gpu in first["gpus"]] == ["Fake GPU", "NVIDIA H100"]
    assert first["gpus"][1]["memory_bytes"] == 80 * GIB
    assert first["gpus"][1]["driver"] == "580.65.06"


def test_only_the_device_that_the_training_told_is_followed_whatever_number_it_has_there(fake_driver, run_sampler):
    """CUDA_VISIBLE_DEVICES=1,0 makes torch's first device the driver's second."""
    fake_driver.set(count=2, gpu0__util=11, gpu1__util=77)
    told = run_sampler(fake_driver).watch(1.6, follow=[uuid(1)])
    assert not of(told, 0)
    assert known(of(told, 1), "util_percent") == pytest.approx([77.0], abs=0.5)


@pytest.mark.slow
def test_changing_load_is_averaged_over_the_drivers_own_samples(fake_driver, run_sampler):
    sampled = run_sampler(fake_driver)
    now = time.time()
    # 80 % for 30 % of each second: polling five times a second could not see it.
    load = "".join(f";@{now + n:.3f}=80;@{now + n + 0.3:.3f}=0" for n in range(6))
    fake_driver.set(gpu0__util=f"0{load}")
    util = known(of(sampled.watch(4.4, follow=[uuid(0)]), 0), "util_percent")[1:]
    assert len(util) >= 3
    assert util == pytest.approx([24.0] * len(util), abs=2.5)


def test_rates_stand_in_where_the_driver_keeps_no_samples(fake_driver, run_sampler):
    fake_driver.set(gpu0__util=55, gpu0__err__nvmlDeviceGetSamples=3)
    told = run_sampler(fake_driver).watch(1.2, follow=[uuid(0)])
    assert set(known(of(told, 0), "util_percent")) == {55.0}
    assert "utilization" not in told["gpus"][0]["unknown"]


@pytest.mark.slow
def test_values_have_the_units_that_their_names_say(fake_driver, run_sampler):
    begun = time.time()
    fake_driver.set(
        gpu0__used=5 * GIB, gpu0__reserved=GIB, gpu0__power_mw=250_000, gpu0__energy_from=begun, gpu0__sm_clock=1410,
        gpu0__temperature=63, gpu0__throttle=0x4 | 0x20 | 0x1, gpu0__pcie_rx_kb=2_000_000, gpu0__pcie_tx_kb=3000,
    )  # fmt: skip
    told = run_sampler(fake_driver).watch(2.4, follow=[uuid(0)])
    samples = of(told, 0)
    assert set(known(samples, "used_bytes")) == {5 * GIB}
    assert set(known(samples, "power_w")) == {250.0}
    assert set(known(samples, "sm_clock_mhz")) == {1410.0}
    assert set(known(samples, "temperature_c")) == {63.0}
    assert samples[0]["throttled_by"] == ["sw_power_cap", "sw_thermal"]
    assert set(known(samples, "pcie_to_device_bytes_per_s")) == {2e9}
    seen = [(t, one["energy_j"]) for t, one in told["samples"]]
    (since, before), (until, after) = seen[0], seen[-1]
    assert (after - before) / (until - since) == pytest.approx(250.0, rel=0.1)
    assert told["gpus"][0]["unknown"] == {}


@pytest.mark.slow
def test_the_trials_memory_is_told_from_the_neighbours(fake_driver, run_sampler):
    neighbour = os.getpid()
    fake_driver.set(gpu0__procs=f"4242:{6 * GIB}:70,{neighbour}:{GIB}:20", gpu0__graphics=f"4242:{6 * GIB}:0")
    told = run_sampler(fake_driver, own=[4242]).watch(2.3, follow=[uuid(0)], own=[4242])
    samples = of(told, 0)
    assert set(known(samples, "own_bytes")) == {6 * GIB}
    assert set(known(samples, "others_bytes")) == {GIB}
    assert set(known(samples, "others_util_percent")) == {20.0}


@pytest.mark.slow
def test_a_neighbours_work_is_never_zero_because_the_clock_was_set_back(fake_driver, run_sampler):
    neighbour = os.getpid()
    now = time.time()
    fake_driver.set(gpu0__procs=f"4242:{GIB}:70,{neighbour}:{GIB}:20", clock_offset=f"0;@{now + 3:.3f}=-3600")
    told = run_sampler(fake_driver, own=[4242]).watch(6.0, follow=[uuid(0)], own=[4242])
    before = [one["others_util_percent"] for t, one in told["samples"] if t < now + 3]
    after = [one["others_util_percent"] for t, one in told["samples"] if t > now + 4.5]
    assert 20.0 in before and 20.0 in after
    assert set(before + after) <= {20.0, None}
    assert told["gpus"][0]["unknown"] == {}


def test_values_that_cannot_be_are_unknown_with_what_the_driver_answered(fake_driver, run_sampler):
    neighbour = os.getpid()
    fake_driver.set(gpu0__util=250, gpu0__temperature=-5, gpu0__procs=f"{neighbour}:{GIB}:4294967295")
    told = run_sampler(fake_driver, own=[4242]).watch(1.3, follow=[uuid(0)], own=[4242])
    samples = of(told, 0)
    for name in ("util_percent", "temperature_c", "others_util_percent"):
        assert known(samples, name) == []
    assert told["gpus"][0]["unknown"] == {
        "utilization": "the driver answered 250 %",
        "temperature": "the driver answered 4294967291 °C",
        "others": "the driver answered 4294967295 %",
    }
    assert set(known(samples, "others_bytes")) == {GIB}


@pytest.mark.slow
def test_a_process_of_the_trial_shows_the_device_although_the_training_told_none(fake_driver, run_sampler):
    fake_driver.set(count=2, gpu1__procs=f"4242:{GIB}:70")
    sampled = run_sampler(fake_driver, own=[4242])
    sampled.watch(1.5, own=[4242])
    told = sampled.watch(0.8, own=[4242])
    assert not of(told, 0)
    assert len(of(told, 1)) > 5


@pytest.mark.slow
def test_pids_of_the_host_belong_to_nobody_unless_they_were_there_before(fake_driver, run_sampler):
    fake_driver.set(gpu0__procs=f"{FOREIGN}:{GIB}:5", gpu0__used=GIB)
    sampled = run_sampler(fake_driver, own=[4242])
    assert sampled.first["samples"][0]["others_bytes"] == GIB
    fake_driver.set(gpu0__procs=f"{FOREIGN}:{2 * GIB}:5,{FOREIGN + 1}:{3 * GIB}:90", gpu0__used=5 * GIB)
    told = sampled.watch(4.3, follow=[uuid(0)], own=[4242])
    samples = of(told, 0)
    assert known(samples, "own_bytes") == []
    assert known(samples, "others_bytes")[-1] == 2 * GIB
    assert "pids of the host" in told["gpus"][0]["unknown"]["own memory"]
    assert max(known(samples, "used_bytes")) == 5 * GIB


def test_memory_that_the_driver_does_not_share_out_is_unknown_not_zero(fake_driver, run_sampler):
    fake_driver.set(gpu0__procs="4242:-:70")
    told = run_sampler(fake_driver, own=[4242]).watch(1.2, follow=[uuid(0)], own=[4242])
    assert known(of(told, 0), "own_bytes") == []
    assert "not their memory" in told["gpus"][0]["unknown"]["own memory"]


def test_a_metric_without_permission_is_said_once_and_costs_no_other(fake_driver, run_sampler):
    fake_driver.set(gpu0__power_mw=100_000, gpu0__err__nvmlDeviceGetComputeRunningProcesses_v3=4,
                    gpu0__err__nvmlDeviceGetPcieThroughput=4)  # fmt: skip
    told = run_sampler(fake_driver).watch(1.3, follow=[uuid(0)])
    assert set(known(of(told, 0), "power_w")) == {100.0}
    assert told["gpus"][0]["unknown"] == {
        "processes": "not permitted for this user",
        "pcie": "not permitted for this user",
    }


@pytest.mark.slow
def test_what_failed_for_a_passing_reason_is_asked_again(fake_driver, run_sampler):
    now = time.time()
    fake_driver.set(gpu0__power_mw=100_000, gpu0__err__nvmlDeviceGetPowerUsage=f"999;@{now + 3:.3f}=0")
    told = run_sampler(fake_driver).watch(6.0, follow=[uuid(0)])
    assert known(of(told, 0), "power_w")
    assert "Unknown Error" in told["gpus"][0]["unknown"]["power"]


def test_a_device_lost_on_the_way_is_said_and_the_other_goes_on(fake_driver, run_sampler):
    fake_driver.set(count=2, gpu0__used=GIB, gpu1__used=GIB)
    sampled = run_sampler(fake_driver)
    assert of(sampled.watch(0.6, follow=[uuid(0), uuid(1)]), 0)
    fake_driver.set(gpu0__err=15)
    sampled.watch(0.3)
    told = sampled.watch(0.6)
    assert of(told, 0) == []
    assert len(of(told, 1)) > 3
    assert "lost" in told["gpus"][0]["unknown"]["device"]
    assert told["gpus"][1]["unknown"] == {}


def test_an_old_driver_tells_what_it_has_and_which_functions_it_lacks(old_driver, run_sampler):
    old_driver.set(driver="450.80.02", gpu0__used=5 * GIB, gpu0__reserved=GIB, gpu0__util=40, gpu0__throttle=8,
                   gpu0__procs=f"4242:{GIB}:1,{os.getpid()}:{GIB}:1")  # fmt: skip
    told = run_sampler(old_driver, own=[4242]).watch(1.3, follow=[uuid(0)], own=[4242])
    samples = of(told, 0)
    assert set(known(samples, "util_percent")) == {40.0}
    assert set(known(samples, "used_bytes")) == {6 * GIB}
    assert set(known(samples, "own_bytes")) == {GIB}
    assert samples[0]["throttled_by"] == ["hw_slowdown"]
    too_old = "the driver (450.80.02) is too old for it"
    assert told["gpus"][0]["unknown"] == {
        "reserved memory": "this driver counts what it keeps for itself as used",
        "energy": too_old,
        "others": too_old,
    }


def test_a_slice_of_a_divided_device_has_memory_but_no_utilization(fake_driver, run_sampler):
    fake_driver.set(
        gpu0__slices=2, gpu0__slice1__used=GIB, gpu0__slice1__total=10 * GIB, gpu0__slice1__uuid="MIG-aa-bb"
    )
    told = run_sampler(fake_driver).watch(0.6, follow=["aa-bb"])
    assert {one["uuid"] for _, one in told["samples"]} == {"MIG-aa-bb"}
    assert set(known([one for _, one in told["samples"]], "used_bytes")) == {GIB}
    gpu = next(gpu for gpu in told["gpus"] if gpu["uuid"] == "MIG-aa-bb")
    assert gpu["mig"] and gpu["memory_bytes"] == 10 * GIB
    assert "MIG" in gpu["unknown"]["utilization"]


def test_a_divided_device_is_found_by_its_own_uuid_as_well(fake_driver, run_sampler):
    """Its slices are what the list shows; what torch tells of it may be the whole device's name."""
    fake_driver.set(gpu0__slices=2, gpu0__used=3 * GIB)
    told = run_sampler(fake_driver).watch(0.4, follow=[uuid(0)])
    assert set(known([one for _, one in told["samples"] if one["uuid"].startswith("GPU-")], "used_bytes")) == {3 * GIB}


@pytest.mark.slow
def test_a_driver_that_hangs_stalls_nobody(fake_driver, run_sampler):
    sampled = run_sampler(fake_driver)
    assert sampled.watch(0.5, follow=[uuid(0)])["samples"]
    fake_driver.set(gpu0__hang__nvmlDeviceGetPowerUsage=3600)
    told = sampled.watch(6.0)
    assert told["slowest_s"] < 0.2
    assert "hangs" in told["gpus"][0]["unknown"]["device"]
    assert sampled.close() < 2.0


@pytest.mark.slow
def test_a_driver_that_hangs_over_the_bus_costs_those_numbers_and_says_so(fake_driver, run_sampler):
    fake_driver.set(count=2, gpu0__hang__nvmlDeviceGetPcieThroughput=3600)
    told = run_sampler(fake_driver).watch(6.5, follow=[uuid(0), uuid(1)])
    for number in (0, 1):
        assert known(of(told, number), "pcie_to_device_bytes_per_s") == []
        assert list(told["gpus"][number]["unknown"]) == ["pcie"]
        assert "hangs" in told["gpus"][number]["unknown"]["pcie"]
    assert known(of(told, 1), "util_percent")


def test_a_driver_that_never_opens_delays_the_start_no_longer_than_asked(fake_driver, run_sampler):
    fake_driver.set(hang__nvmlInitWithFlags=3600)
    sampled = run_sampler(fake_driver, wait_s=0.3)
    assert 0.3 <= sampled.first["started_s"] < 1.0
    assert sampled.first["gpus"] == []


@pytest.mark.parametrize(("code", "words"), [(9, "not loaded"), (18, "different versions"), (4, "not permitted")])
def test_without_a_working_driver_there_is_a_reason(fake_driver, run_sampler, code, words):
    fake_driver.set(err__nvmlInitWithFlags=code)
    first = run_sampler(fake_driver).first
    assert first["gpus"] == [] and first["samples"] == []
    assert words in first["why_none"]


@pytest.mark.slow
@pytest.mark.timing
def test_looking_costs_less_than_half_a_percent_of_a_core(fake_driver, run_sampler):
    """The other half of the whole sampler's one percent is the host's. The fake's own work is in it."""
    fake_driver.set(count=2, gpu0__procs=",".join(f"{4242 + n}:{GIB}:9" for n in range(9)))
    sampled = run_sampler(fake_driver, interval_s=0.2, own=NINE)
    sampled.watch(0.5, follow=[uuid(0)], own=NINE)
    assert sampled.watch(4.0, own=NINE)["cpu_s"] < 0.005 * 4.0


DEVICES = """
import json, sys
from vtune.journal.files import to_json
from vtune.telemetry.nvml import devices
print(json.dumps(to_json(devices(float(sys.argv[1])))))
"""


def devices_now(env, timeout_s=5.0):
    done = subprocess.run([sys.executable, "-c", DEVICES, str(timeout_s)], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
    return json.loads(done.stdout)


def test_doctor_gets_every_device_as_it_is_now(fake_driver):
    fake_driver.set(count=2, gpu0__used=GIB, gpu0__reserved=7, gpu0__procs=f"77:{GIB}:3", gpu1__slices=1,
                    gpu1__slice0__uuid="MIG-aa")  # fmt: skip
    told = devices_now(fake_driver.env)
    assert (told["driver"], told["cuda"], told["why_none"]) == ("580.65.06", "13.0", None)
    whole, slice_ = told["devices"]
    assert (whole["used_bytes"], whole["reserved_bytes"]) == (GIB, 7)
    assert whole["processes"] == [{"pid": 77, "used_bytes": GIB}]
    assert slice_["gpu"]["mig"] and slice_["gpu"]["index"] == 1 and slice_["gpu"]["uuid"] == "MIG-aa"


def test_without_a_driver_doctor_is_told_so_within_milliseconds():
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        assert "libnvidia-ml.so.1 was not found" in devices().why_none
    else:
        pytest.skip("this machine has a driver")


def test_a_device_that_is_lost_is_listed_with_the_reason_said_once(fake_driver):
    fake_driver.set(gpu0__err__nvmlDeviceGetHandleByIndex_v2=15)
    (told,) = devices_now(fake_driver.env)["devices"]
    assert list(told["gpu"]["unknown"]) == ["device"] and "lost" in told["gpu"]["unknown"]["device"]


TWICE = """
import json, sys, time
from vtune.telemetry.nvml import devices
told = []
for _ in range(2):
    begun = time.monotonic()
    told.append([devices(float(sys.argv[1])).why_none, time.monotonic() - begun])
    time.sleep(float(sys.argv[2]))
print(json.dumps(told))
"""


def asked_twice(env, timeout_s, pause_s):
    done = subprocess.run([sys.executable, "-c", TWICE, str(timeout_s), str(pause_s)], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
    return json.loads(done.stdout)


def test_a_driver_that_hangs_is_waited_for_once(fake_driver):
    fake_driver.set(hang__nvmlInitWithFlags=3600)
    (first, first_s), (second, second_s) = asked_twice(fake_driver.env, 0.5, 0.0)
    assert first == "the NVIDIA driver did not answer within 0.5 s" and 0.5 <= first_s < 2.0
    assert second == "the NVIDIA driver hangs: an earlier call never came back" and second_s < 0.2


def test_the_driver_is_opened_once_however_often_it_is_asked(fake_driver):
    """Opened a second time it would refuse."""
    fake_driver.set(err__nvmlInitWithFlags=f"0;@{time.time() + 2:.3f}=18")
    assert [why for why, _ in asked_twice(fake_driver.env, 5.0, 2.1)] == [None, None]


SURVEY = """
import json, sys, time
from pathlib import Path
from vtune.journal.files import to_json
from vtune.telemetry.machine import this_machine
from vtune.telemetry.survey import survey
begun = time.monotonic()
found = survey(Path(sys.argv[1]), sys.argv[2])
machine = this_machine(gpus=found.gpus)
print(json.dumps({"took_s": time.monotonic() - begun, **to_json(found), "machine": to_json(machine)}))
"""


def surveyed(env, folder, python=sys.executable):
    done = subprocess.run([sys.executable, "-c", SURVEY, str(folder), str(python)], env={**os.environ, **env},
                          capture_output=True, text=True, timeout=60, check=True)  # fmt: skip
    return json.loads(done.stdout)


def built_for_cuda(folder, version):
    path = folder / "cuda-python"
    told = {"executable": "x", "python": "3.12.1", "torch": "2.9.0", "cuda": version}
    path.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    path.chmod(0o755)
    return path


def because(told, what):
    return [one["because"] for one in told["cannot"] if one["what"] == what]


@pytest.mark.slow
def test_a_survey_waits_for_a_driver_that_hangs_once_and_says_so(fake_driver, tmp_path):
    fake_driver.set(hang__nvmlInitWithFlags=3600)
    told = surveyed(fake_driver.env, tmp_path)
    assert told["took_s"] < 2 * 2.5
    assert because(told, "no GPU is read") == ["the NVIDIA driver did not answer within 2.5 s"]
    assert told["machine"]["gpus"] == [] and told["machine"]["gpus_unread_because"] == told["gpus"]["why_none"]
    assert told["machine"]["ram_bytes"] and told["cpu_model"] == told["machine"]["cpu_model"]


@pytest.mark.slow
def test_a_survey_of_a_machine_with_gpus_says_what_they_do_not_tell(fake_driver, tmp_path):
    fake_driver.set(count=2, gpu0__procs=f"{FOREIGN}:{GIB}:3", gpu0__util=40, gpu1__slices=1)
    told = surveyed(fake_driver.env, tmp_path, built_for_cuda(tmp_path, "14.1"))
    whole, slice_ = told["gpus"]["devices"]
    assert whole["util_percent"] == 40.0 and slice_["util_percent"] is None
    (why,) = because(told, "GPU 1: utilization is unknown")
    assert "slice of a divided device (MIG)" in why
    assert because(told, "GPU 0: utilization is unknown") == []
    assert "pids of the host" in because(told, "GPU 0: whose memory it is")[0]
    assert because(told, "the training may not start on the GPU") == [
        "torch is built for CUDA 14.1, the driver runs 13.0"
    ]
    assert because(told, "the training cannot use the GPU") == []
    assert told["neighbours"]["gpu_processes"] == 1
    # An older driver runs newer minor versions.
    told = surveyed(fake_driver.env, tmp_path, built_for_cuda(tmp_path, "13.9"))
    assert because(told, "the training may not start on the GPU") == []
