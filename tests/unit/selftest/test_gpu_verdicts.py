"""The verdicts of the GPU cells on made-up values: there is no GPU here, but there is their logic."""

from __future__ import annotations

from vtune.selftest import gpu_verdicts

MIB = 2**20
GIB = 2**30


def stages(opened: int, held: int, freed: int) -> dict[str, int | None]:
    return {"open": opened, "held": held, "freed": freed}


def test_an_allocation_is_seen_on_its_device_and_given_back() -> None:
    used = {"aa": stages(500 * MIB, 500 * MIB + GIB, 502 * MIB), "bb": stages(0, 0, 0)}
    assert gpu_verdicts.allocation("aa", used, GIB).status == "passed"


def test_an_allocation_on_another_device_than_the_trainings_is_red() -> None:
    used = {"aa": stages(500 * MIB, 500 * MIB, 500 * MIB), "bb": stages(0, GIB, 0)}
    wrong = gpu_verdicts.allocation("aa", used, GIB)
    assert wrong.status == "failed" and "expected 1 GiB more on the training's device, seen 0 B" in wrong.sentence
    both = {"aa": stages(0, GIB, 0), "bb": stages(0, GIB, 0)}
    assert "on the other devices" in gpu_verdicts.allocation("aa", both, GIB).sentence
    assert gpu_verdicts.allocation("cc", used, GIB).status == "failed"
    assert gpu_verdicts.allocation(None, used, GIB).status == "failed"


def test_memory_that_does_not_come_back_is_red() -> None:
    assert "still in use" in gpu_verdicts.allocation("aa", {"aa": stages(0, GIB, GIB)}, GIB).sentence


def test_a_driver_that_does_not_tell_is_not_zero() -> None:
    none: dict[str, int | None] = {"open": None, "held": None, "freed": None}
    assert gpu_verdicts.allocation("aa", {"aa": none}, GIB).status == "failed"


def test_duty_is_judged_by_events_and_by_the_driver() -> None:
    assert gpu_verdicts.duty(0.5, 0.52, 0.45).status == "passed"
    assert "by events" in gpu_verdicts.duty(0.2, 0.4, 0.2).sentence
    assert gpu_verdicts.duty(0.2, 0.4, 0.2).status == "failed"
    assert gpu_verdicts.duty(0.2, 0.21, 0.9).status == "failed"
    assert gpu_verdicts.duty(0.2, None, 0.2).status == "failed"


def test_a_mig_slice_has_no_counter_and_fails_nothing_for_it() -> None:
    assert gpu_verdicts.duty(0.5, 0.5, None, mig=True).status == "passed"
    assert gpu_verdicts.duty(0.5, 0.5, None, mig=False).status == "failed"


def test_out_of_memory_must_be_named_so() -> None:
    assert gpu_verdicts.out_of_memory("out_of_vram", "tried to allocate 512 MiB").status == "passed"
    wrong = gpu_verdicts.out_of_memory("crashed", "exit code 1")
    assert wrong.status == "failed" and "expected out_of_vram, seen crashed" in wrong.sentence


def test_a_loss_on_the_cpu_is_host_and_nothing_else() -> None:
    assert gpu_verdicts.bottleneck("host", "host", "the device idles").status == "passed"
    assert "expected host, seen data" in gpu_verdicts.bottleneck("data", "host", "waits").sentence


def test_pinned_memory_is_bounded_by_the_queue_rounded_up() -> None:
    ask = {"workers": 4, "prefetch": 2, "batch_bytes": 12 * MIB}
    assert gpu_verdicts.pinned(8 * 16 * MIB, **ask).status == "passed"
    assert gpu_verdicts.pinned(11 * 16 * MIB, **ask).status == "failed"
    assert gpu_verdicts.pinned(0, **ask).status == "failed"
    assert gpu_verdicts.pinned(None, **ask).status == "inconclusive"


def test_steps_left_out_by_a_scaler_are_counted_exactly() -> None:
    assert gpu_verdicts.skipped(7, 7).status == "passed"
    assert gpu_verdicts.skipped(6, 7).status == "failed"
    assert "none told" in gpu_verdicts.skipped(None, 7).sentence


def test_precision_is_read_back_as_it_was_set() -> None:
    expected = {"autocast": True, "autocast_dtype": "bfloat16"}
    assert gpu_verdicts.precision({**expected, "matmul": "highest"}, expected).status == "passed"
    wrong = gpu_verdicts.precision({"autocast": True, "autocast_dtype": "float16"}, expected)
    assert wrong.sentence == "expected autocast_dtype bfloat16, seen float16"


def test_device_memory_comes_back_after_a_kill() -> None:
    assert gpu_verdicts.vram_back(2.0, 400 * MIB, GIB, 401 * MIB).status == "passed"
    assert gpu_verdicts.vram_back(None, 400 * MIB, GIB, GIB).status == "failed"
    assert "expected the training on the device" in gpu_verdicts.vram_back(1.0, GIB, GIB, GIB).sentence
    assert gpu_verdicts.vram_back(1.0, None, GIB, GIB).status == "failed"


def test_the_slow_rank_is_the_one_that_computes_longer() -> None:
    assert gpu_verdicts.straggler({0: 0.020, 1: 0.041}, 1).status == "passed"
    assert gpu_verdicts.straggler({0: 0.041, 1: 0.020}, 1).status == "failed"
    assert gpu_verdicts.straggler({0: 0.040, 1: 0.041}, 1).status == "failed"
    assert gpu_verdicts.straggler({0: 0.040}, 1).status == "failed"
