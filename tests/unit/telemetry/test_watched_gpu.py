"""What is asked of one device and when. The driver's library is a function here; tests/integration has it compiled."""

from __future__ import annotations

import os
from collections import Counter
from types import SimpleNamespace

import pytest

from vtune.domain.machine import Gpu
from vtune.telemetry.nvml_device import Device, Unreadable
from vtune.telemetry.watched_gpu import Ours, WatchedGpu

HOSTS = 2**22 + 7


def sample(t_us, percent):
    return SimpleNamespace(timeStamp=t_us, sampleValue=SimpleNamespace(uiVal=percent))


def process(pid, used=1):
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


class Driver:
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, object] = {
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=80, used=5, reserved=1),
            "nvmlDeviceGetSamples": (1, []),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=33),
            "nvmlDeviceGetCurrentClocksEventReasons": 0,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetGraphicsRunningProcesses": [],
            "nvmlDeviceGetProcessUtilization": [],
            "nvmlDeviceGetTotalEnergyConsumption": 5000,
            "nvmlDeviceGetPowerUsage": 70_000,
            "nvmlDeviceGetClockInfo": 1400,
            "nvmlDeviceGetTemperature": 50,
        }

    def __call__(self, name: str, *arguments: object) -> object:
        self.asked[name] += 1
        answer = self.answers[name]
        if isinstance(answer, int) and answer < 0:
            raise Unreadable(f"code {-answer}", code=-answer)
        return answer

    def watched(self, *, mig: bool = False) -> WatchedGpu:
        return WatchedGpu(Device(self, object(), Gpu(index=0, uuid="GPU-aa", mig=mig)))


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_what_is_not_supported_is_asked_once_and_said_once(driver):
    driver.answers["nvmlDeviceGetPowerUsage"] = -3
    watched = driver.watched()
    for n in range(100):
        assert watched.look(n * 0.2, Ours()).power_w is None
    assert driver.asked["nvmlDeviceGetPowerUsage"] == 1
    assert watched.gpu.unknown == {"power": "code 3"}
    assert driver.asked["nvmlDeviceGetMemoryInfo"] == 100


def test_what_failed_for_a_passing_reason_is_asked_again_but_not_five_times_a_second(driver):
    driver.answers["nvmlDeviceGetPowerUsage"] = -999
    watched = driver.watched()
    for n in range(50):
        watched.look(n * 0.2, Ours())
    assert driver.asked["nvmlDeviceGetPowerUsage"] == 2
    driver.answers["nvmlDeviceGetPowerUsage"] = 80_000
    assert watched.look(10.2, Ours()).power_w == 80.0


def test_a_lost_device_is_not_asked_any_more(driver):
    watched = driver.watched()
    driver.answers["nvmlDeviceGetTotalEnergyConsumption"] = -15
    assert watched.look(0.0, Ours()) is None
    before = driver.asked.total()
    assert watched.look(0.2, Ours()) is None
    assert driver.asked.total() == before
    assert watched.gpu.unknown == {"device": "code 15"}


def test_what_is_dear_is_asked_once_a_second_on_a_grid_that_jitters(driver):
    watched = driver.watched()
    for n in range(51):
        watched.look(n * 0.2 + (0.01 if n % 2 else 0.0), Ours())
    assert driver.asked["nvmlDeviceGetComputeRunningProcesses"] == 11
    assert driver.asked["nvmlDeviceGetSamples"] == 11


def test_samples_older_than_the_trial_do_not_count(driver):
    watched = driver.watched()
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_000_000, 100), sample(1_500_000, 100)])
    assert watched.look(0.0, Ours()).util_percent is None
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_500_000, 100), sample(2_000_000, 20)])
    assert watched.look(1.0, Ours()).util_percent == 20.0


def test_a_sample_counts_for_the_time_since_the_one_before(driver):
    watched = driver.watched()
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_000_000, 0)])
    watched.look(0.0, Ours())
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_100_000, 100), sample(1_900_000, 0), sample(2_000_000, 50)])
    assert watched.look(1.0, Ours()).util_percent == pytest.approx((100 * 0.1 + 0 * 0.8 + 50 * 0.1) / 1.0)


def test_a_buffer_that_stands_still_gives_way_to_the_rates(driver):
    watched = driver.watched()
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_000_000, 100)])
    told = [watched.look(float(t), Ours()).util_percent for t in range(5)]
    assert told == [None, None, None, 33.0, 33.0]


def test_memory_of_the_first_version_says_what_it_counts_along(driver):
    def old(name, *arguments):
        if name == "nvmlDeviceGetMemoryInfo" and len(arguments) > 1:
            raise Unreadable("too old", code=13)
        return driver(name, *arguments)

    watched = WatchedGpu(Device(old, object(), Gpu(index=0, uuid="GPU-aa")))
    for n in range(3):
        assert watched.look(n * 0.2, Ours()).used_bytes == 5
    assert driver.asked["nvmlDeviceGetMemoryInfo"] == 3
    assert "counts what it keeps" in watched.gpu.unknown["reserved memory"]


def test_a_stranger_that_exists_here_is_a_neighbour_and_one_of_the_host_is_anybodys(driver):
    watched = driver.watched()
    watched.told = True
    watched.look(0.0, Ours(now=[4242], ever=[4242]))
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(os.getpid(), 7), process(HOSTS, 9)]
    for t in range(1, 5):
        seen = watched.look(float(t), Ours(now=[4242], ever=[4242]))
        assert (seen.own_bytes, seen.others_bytes) == (None, 7)
    assert "none of the processes" in watched.gpu.unknown["own memory"]
    # Its own process is there after all: all others are others.
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(4242, 5), process(HOSTS, 9)]
    seen = watched.look(6.0, Ours(now=[4242], ever=[4242]))
    assert (seen.own_bytes, seen.others_bytes) == (5, 9)
    assert "own memory" not in watched.gpu.unknown


def test_a_training_that_has_ended_is_not_missed(driver):
    watched = driver.watched()
    watched.told = True
    for t in range(10):
        watched.look(float(t), Ours(now=[], ever=[4242]))
    assert "own memory" not in watched.gpu.unknown


def test_a_neighbours_work_is_that_since_the_last_look(driver):
    watched = driver.watched()
    ours = Ours(now=[4242], ever=[4242])
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(4242), process(HOSTS)]
    used = SimpleNamespace(pid=HOSTS, timeStamp=10, smUtil=60), SimpleNamespace(pid=4242, timeStamp=10, smUtil=30)
    driver.answers["nvmlDeviceGetProcessUtilization"] = used
    assert watched.look(0.0, ours).others_util_percent is None
    assert watched.look(1.0, ours).others_util_percent == 0.0
    driver.answers["nvmlDeviceGetProcessUtilization"] = [SimpleNamespace(pid=HOSTS, timeStamp=11, smUtil=40)]
    assert watched.look(2.0, ours).others_util_percent == 40.0


def test_a_neighbour_that_did_nothing_since_the_last_look_is_idle_also_when_asked_for_all(driver):
    watched = driver.watched()
    ours = Ours(now=[4242], ever=[4242])
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(4242), process(HOSTS)]
    driver.answers["nvmlDeviceGetProcessUtilization"] = [SimpleNamespace(pid=HOSTS, timeStamp=10, smUtil=60)]
    assert [watched.look(float(t), ours).others_util_percent for t in range(4)] == [None, 0.0, 0.0, 0.0]
    driver.answers["nvmlDeviceGetProcessUtilization"] = -6
    assert watched.look(4.0, ours).others_util_percent == 0.0


def test_a_neighbour_is_unknown_for_one_look_when_the_drivers_clock_goes_back(driver):
    watched = driver.watched()
    ours = Ours(now=[4242], ever=[4242])
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(4242), process(HOSTS)]
    told = []
    for t, stamp in enumerate((1000, 1001, 501, 502, 503)):
        used = SimpleNamespace(pid=HOSTS, timeStamp=stamp, smUtil=60)
        driver.answers["nvmlDeviceGetProcessUtilization"] = [used]
        told.append(watched.look(float(t), ours).others_util_percent)
    assert told == [None, 60.0, None, 60.0, 60.0]


@pytest.mark.parametrize(
    ("question", "answer", "metric", "field", "words"),
    [
        ("UtilizationRates", SimpleNamespace(gpu=250), "utilization", "util_percent", "250 %"),
        ("UtilizationRates", SimpleNamespace(gpu=2**32 - 5), "utilization", "util_percent", "4294967291 %"),
        ("MemoryInfo", SimpleNamespace(total=80, used=81, reserved=0), "memory", "used_bytes", "81 bytes used of 80"),
        ("ComputeRunningProcesses", [process(4242, 81)], "processes", "own_bytes", "81 bytes for a process"),
        ("PowerUsage", 2**32 - 1, "power", "power_w", "4294967.295 W"),
        ("Temperature", 2**32 - 5, "temperature", "temperature_c", "4294967291 °C"),
        ("ClockInfo", 2**32 - 1, "sm_clock", "sm_clock_mhz", "4294967295 MHz"),
        ("TotalEnergyConsumption", 2**64 - 1, "energy", "energy_j", "J"),
    ],
)
def test_what_cannot_be_is_unreadable_and_says_what_was_answered(driver, question, answer, metric, field, words):
    driver.answers["nvmlDeviceGetSamples"] = -3
    driver.answers[f"nvmlDeviceGet{question}"] = answer
    watched = driver.watched()
    assert getattr(watched.look(0.0, Ours(now=[4242], ever=[4242])), field) is None
    assert list(watched.gpu.unknown) == [metric]
    assert "the driver answered" in watched.gpu.unknown[metric] and words in watched.gpu.unknown[metric]


def test_a_neighbours_share_that_cannot_be_is_unreadable(driver):
    driver.answers["nvmlDeviceGetComputeRunningProcesses"] = [process(HOSTS)]
    driver.answers["nvmlDeviceGetProcessUtilization"] = [SimpleNamespace(pid=HOSTS, timeStamp=9, smUtil=2**32 - 1)]
    watched = driver.watched()
    assert watched.look(0.0, Ours()).others_util_percent is None
    assert watched.gpu.unknown["others"] == "the driver answered 4294967295 %"


def test_a_buffer_of_values_that_cannot_be_gives_way_to_the_rates(driver):
    driver.answers["nvmlDeviceGetSamples"] = (1, [sample(1_000_000, 50), sample(1_020_000, 2**31)])
    watched = driver.watched()
    assert watched.look(0.0, Ours()).util_percent == 33.0
    assert watched.gpu.unknown == {}


def test_what_could_not_be_once_is_asked_again(driver):
    driver.answers["nvmlDeviceGetPowerUsage"] = 2**32 - 1
    watched = driver.watched()
    watched.look(0.0, Ours())
    driver.answers["nvmlDeviceGetPowerUsage"] = 70_000
    assert watched.look(6.0, Ours()).power_w == 70.0


def test_a_slices_missing_metric_is_said_to_be_missing_because_it_is_one(driver):
    driver.answers["nvmlDeviceGetSamples"] = driver.answers["nvmlDeviceGetUtilizationRates"] = -3
    watched = driver.watched(mig=True)
    watched.look(0.0, Ours())
    assert "MIG" in watched.gpu.unknown["utilization"]
