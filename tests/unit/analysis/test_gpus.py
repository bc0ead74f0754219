from __future__ import annotations

import pytest

from vtune.analysis.gpus import gpu_notes, over_vram_limit, with_gpus
from vtune.domain.events import Fact, GpuSample, TelemetrySample
from vtune.domain.experiment import Limit
from vtune.domain.machine import Gpu
from vtune.domain.machine_use import GpuUse
from vtune.domain.record import Measurement

GIB = 2**30
ZERO = Gpu(index=0, uuid="GPU-aa", name="H100", memory_bytes=80 * GIB)
ONE = Gpu(index=1, uuid="GPU-bb", name="H100", memory_bytes=80 * GIB)


def look(t_s: float, *gpus: GpuSample) -> TelemetrySample:
    return TelemetrySample(
        t_s=t_s,
        processes=(),
        ram_bytes=None,
        shm_used_bytes=None,
        others_cores=None,
        ram_available_bytes=None,
        gpus=gpus,
    )


def looks(uuid="GPU-aa", until=10, **values):
    """Each second; a list gives its items in turn."""
    return [
        look(float(t), GpuSample(uuid=uuid, **{k: v[t] if isinstance(v, list) else v for k, v in values.items()}))
        for t in range(until + 1)
    ]


def device(number=0, uuid="aa", pid=7, **more):
    return Fact(pid=pid, t_s=0.5, name="device", data={"device": number, "type": "cuda", "uuid": uuid, **more})


def memory(number=0, pid=7, **data):
    return Fact(pid=pid, t_s=1.0, name="memory", data={"device": number, **data})


def measured(telemetry, *, gpus=(ZERO,), facts=None, spans=((2.0, 8.0),)):
    facts = (device(),) if facts is None else facts
    return with_gpus(Measurement(), telemetry=telemetry, gpus=gpus, facts=facts, spans=spans)


def one(*args, **kwargs) -> GpuUse:
    (use,) = measured(*args, **kwargs).gpus
    return use


def test_without_a_gpu_there_is_none():
    found = measured([look(0.0)], gpus=(), facts=())
    assert found.gpus == () and found.vram_peak_bytes is None


def test_devices_are_joined_by_uuid_and_keep_the_drivers_number():
    """CUDA_VISIBLE_DEVICES=1: torch's device 0 is the driver's 1."""
    telemetry = [
        look(float(t), GpuSample(uuid="GPU-aa", util_percent=5.0), GpuSample(uuid="GPU-bb", util_percent=90.0))
        for t in range(11)
    ]
    use = one(telemetry, gpus=(ZERO, ONE), facts=(device(0, "BB"),))
    assert (use.index, use.uuid, use.util_mean) == (1, "GPU-bb", 90.0)


def test_only_what_lies_in_the_measured_steps_counts():
    start_up = looks(util_percent=[0] * 3 + [80] * 6 + [0] * 2, power_w=[50] * 2 + [300] * 7 + [50] * 2,
                     sm_clock_mhz=[200] * 2 + [1400] * 7 + [200] * 2)  # fmt: skip
    use = one(start_up)
    # The value told at t covers the second before it.
    assert (use.util_mean, use.power_w_mean, use.sm_clock_mhz_mean) == (80.0, 300.0, 1400.0)


def test_an_epochs_boundary_within_the_window_is_left_out():
    use = one(looks(util_percent=[80] * 5 + [0] * 2 + [80] * 4), spans=[(2.0, 3.0), (3.0, 4.0), (6.0, 8.0)])
    assert use.util_mean == pytest.approx(80.0)


def test_a_value_that_covers_the_windows_edge_counts_for_its_part_in_it():
    use = one(looks(util_percent=[0, 0, 0, 100, 100, 100, 100, 100, 100, 0, 0]), spans=[(2.5, 8.5)])
    assert use.util_mean == pytest.approx(100 * 5.5 / 6.0)


def test_energy_is_the_counters_difference_between_the_edges():
    use = one(looks(energy_j=[1000.0 + 100 * t if t < 5 else 1500.0 + 300 * (t - 5) for t in range(11)]),
              spans=[(2.5, 7.5)])  # fmt: skip
    assert use.energy_j == pytest.approx(2.5 * 100 + 2.5 * 300)


def test_energy_of_a_counter_that_started_anew_is_unknown():
    assert one(looks(energy_j=[900.0] * 5 + [10.0] * 6)).energy_j is None


def test_energy_that_is_known_for_half_of_the_window_only_is_unknown():
    use = one(looks(energy_j=[100.0 * t if t < 6 else None for t in range(11)]), spans=[(2.0, 8.0)])
    assert use.energy_j is None and "energy" in use.unknown


def test_a_counter_that_started_anew_is_said_to_have_done_so():
    use = one(looks(energy_j=[100.0 * t if t < 6 else 10.0 * t for t in range(11)]), spans=[(2.0, 8.0)])
    assert use.energy_j is None and "started anew" in use.unknown["energy"]


def test_a_mean_of_a_fraction_of_the_window_is_not_told_as_that_of_the_whole():
    lost = looks(util_percent=[95.0 if t < 3 else None for t in range(11)], power_w=[300.0] * 3 + [None] * 8)
    use = one(lost, spans=[(0.5, 10.0)])
    assert use.util_mean is None and use.power_w_mean is None and "utilization" in use.unknown


def test_reasons_are_said_once_for_all_metrics_that_share_them():
    gpu = GpuUse(index=0, uuid="a", unknown={"power": "not permitted", "energy": "not permitted", "pcie": "old driver"})
    assert gpu_notes([gpu]) == [
        "not known of GPU 0: power, energy (not permitted)",
        "not known of GPU 0: pcie (old driver)",
    ]


def test_what_slows_the_clocks_is_a_share_of_the_samples():
    throttled = [("sw_power_cap",)] * 5 + [("sw_power_cap", "hw_thermal")] * 1 + [()] * 5
    use = one(looks(throttled_by=throttled), spans=[(1.0, 9.0)])
    assert use.throttled == {"sw_power_cap": pytest.approx(5 / 9), "hw_thermal": pytest.approx(1 / 9)}


def test_a_metric_that_the_driver_does_not_tell_keeps_its_reason():
    gpu = Gpu(index=0, uuid="GPU-aa", unknown={"power": "not permitted for this user"})
    use = one(looks(util_percent=10.0), gpus=(gpu,))
    assert use.power_w_mean is None and use.unknown["power"] == "not permitted for this user"


def test_memory_by_process_is_that_of_the_whole_trial_and_names_its_source():
    peak = [None, 5 * GIB, 9 * GIB, *[5 * GIB] * 8]
    found = measured(looks(own_bytes=peak, others_bytes=GIB, used_bytes=10 * GIB), spans=[(4.0, 8.0)])
    (use,) = found.gpus
    assert use.vram_peak_bytes == found.vram_peak_bytes == 9 * GIB
    assert use.vram_from == "the driver, by process"
    assert (use.others_peak_bytes, use.vram_total_bytes) == (GIB, 80 * GIB)


def test_a_spike_between_two_looks_is_known_to_the_trainings_allocator():
    use = one(looks(own_bytes=5 * GIB), facts=(device(), memory(reserved_peak=20 * GIB)))
    assert use.vram_peak_bytes == 20 * GIB and "allocator" in use.vram_from


def test_a_spike_below_what_the_driver_saw_still_has_the_context_on_top_of_it():
    """Five were seen, one of them the context: a spike to four and a half of tensors is five and a half."""
    spike = memory(reserved_peak=9 * GIB // 2, outside=GIB, step=9)
    quiet = looks(own_bytes=5 * GIB, used_bytes=[0] + [5 * GIB] * 10)
    use = one(quiet, facts=(device(), spike))
    assert use.vram_peak_bytes == 11 * GIB // 2 and "allocator" in use.vram_from
    # A neighbour that came meanwhile is no context.
    beside = looks(own_bytes=5 * GIB, used_bytes=[0] + [5 * GIB] * 10, others_bytes=[0] + [GIB] * 10)
    assert one(beside, facts=(device(), spike)).vram_peak_bytes == 5 * GIB


def test_in_a_container_it_is_the_device_less_what_was_there_before():
    use = one(looks(used_bytes=[3 * GIB, 3 * GIB] + [12 * GIB] * 9))
    assert use.vram_peak_bytes == 9 * GIB
    assert use.vram_from == "the device, less what was used before the trial"


def test_in_a_container_a_known_neighbours_growth_is_not_ours():
    grown = looks(used_bytes=[3 * GIB] + [12 * GIB] * 10, others_bytes=[2 * GIB] + [6 * GIB] * 10)
    assert one(grown).vram_peak_bytes == 5 * GIB


def test_in_a_container_the_allocator_knows_spikes_and_the_device_its_context():
    facts = (
        device(),
        memory(reserved_peak=2 * GIB, outside=3 * GIB, step=1),
        # The context is the least that lies outside; what came to it later is a neighbour's.
        memory(reserved_peak=9 * GIB, outside=4 * GIB, step=5),
        memory(reserved_peak=9 * GIB, outside=7 * GIB, step=9),
    )
    use = one(looks(used_bytes=[3 * GIB] + [12 * GIB] * 10), facts=facts)
    assert use.vram_peak_bytes == 10 * GIB
    assert use.vram_from.startswith("the training's allocator, and")


def test_without_a_look_before_the_trial_the_allocator_stands_alone_and_says_so():
    late = looks(used_bytes=12 * GIB)
    late[0] = look(0.0)
    use = one(late, facts=(device(), memory(reserved_peak=8 * GIB, outside=4 * GIB, step=9)))
    assert use.vram_peak_bytes == 8 * GIB
    assert use.vram_from == "the training's allocator, without its context"


def test_what_others_may_have_taken_is_not_called_the_trials():
    found = measured(looks(used_bytes=[3 * GIB] + [12 * GIB] * 10, util_percent=50.0), facts=())
    (use,) = found.gpus
    assert use.vram_peak_bytes is None and found.vram_peak_bytes is None
    assert "told no device" in use.unknown["vram"] and "9 GiB more" in use.unknown["vram"]
    assert use.util_mean == 50.0


def test_a_process_of_the_trial_on_a_device_is_enough_to_know_it():
    telemetry = [
        look(float(t), GpuSample(uuid="GPU-aa", util_percent=1.0), GpuSample(uuid="GPU-bb", own_bytes=GIB))
        for t in range(11)
    ]
    assert one(telemetry, gpus=(ZERO, ONE), facts=()).uuid == "GPU-bb"


def test_two_ranks_on_two_devices_are_two_rows_and_the_larger_peak_is_the_trials():
    telemetry = [
        look(float(t), GpuSample(uuid="GPU-aa", own_bytes=4 * GIB), GpuSample(uuid="GPU-bb", own_bytes=6 * GIB))
        for t in range(11)
    ]
    found = measured(telemetry, gpus=(ZERO, ONE), facts=(device(0, "aa", pid=7), device(1, "bb", pid=8)))
    assert [use.vram_peak_bytes for use in found.gpus] == [4 * GIB, 6 * GIB]
    assert found.vram_peak_bytes == 6 * GIB


def test_two_processes_on_one_device_add_up():
    facts = (device(pid=7), device(pid=8), memory(pid=7, reserved_peak=2 * GIB), memory(pid=8, reserved_peak=3 * GIB))
    late = [look(0.0)]
    assert one(late, facts=facts).vram_peak_bytes == 5 * GIB


def test_a_device_that_nvml_does_not_know_is_told_by_the_training_alone():
    facts = (device(2, "cc", name="MI300X", total_bytes=192 * GIB), memory(2, reserved_peak=50 * GIB))
    use = one([look(0.0)], gpus=(), facts=facts)
    assert (use.index, use.name, use.vram_peak_bytes) == (2, "MI300X", 50 * GIB)
    assert "NVML" in use.unknown["device"] and use.util_mean is None


def test_an_old_torch_tells_no_uuid_but_one_device_can_only_be_that_one():
    use = one(looks(own_bytes=GIB, util_percent=60.0), facts=(device(0, None), memory(reserved_peak=GIB)))
    assert (use.uuid, use.util_mean) == ("GPU-aa", 60.0)


def test_a_device_lost_on_the_way_keeps_what_was_seen_and_says_why():
    gpu = Gpu(index=0, uuid="GPU-aa", unknown={"device": "the GPU is lost"})
    found = measured(looks(until=5, own_bytes=GIB, util_percent=70.0), gpus=(gpu,))
    (use,) = found.gpus
    assert (use.vram_peak_bytes, use.util_mean) == (GIB, 70.0)
    assert gpu_notes(found.gpus) == ["GPU 0: the GPU is lost"]


def test_a_neighbour_that_computes_is_a_note_and_an_idle_one_is_not():
    (use,) = measured(looks(own_bytes=GIB, others_bytes=GIB, others_util_percent=35.0)).gpus
    assert use.others_util_mean == 35.0
    assert any("others computed 35 % of the time on GPU 0" in line for line in gpu_notes([use]))
    (use,) = measured(looks(own_bytes=GIB, others_bytes=GIB, others_util_percent=0.0)).gpus
    assert not any("others" in line for line in gpu_notes([use]))
    (use,) = measured(looks(own_bytes=GIB, others_bytes=GIB)).gpus
    assert any("others hold 1 GiB of GPU 0" in line for line in gpu_notes([use]))


def test_a_share_as_limit_is_of_each_devices_own_memory():
    small = GpuUse(index=0, uuid="a", vram_peak_bytes=9 * GIB, vram_total_bytes=10 * GIB)
    large = GpuUse(index=1, uuid="b", vram_peak_bytes=20 * GIB, vram_total_bytes=80 * GIB)
    unknown = GpuUse(index=2, uuid="c", vram_total_bytes=80 * GIB)
    assert over_vram_limit([small, large, unknown], Limit(fraction=0.5, text="50%")) == (small, 5 * GIB)
    assert over_vram_limit([small, large, unknown], Limit(bytes=20 * GIB, text="20GiB")) is None
