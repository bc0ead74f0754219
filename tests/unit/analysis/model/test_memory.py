"""What settings take of memory, and what is sure to be too much."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from support.studies import a_failure, a_trial
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.predict import Model
from vtune.analysis.queues import needed_shm_bytes
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limit, Limits
from vtune.domain.machine_use import GpuUse, RamGrowth
from vtune.domain.record import Ceiling, Rung, TrialRecord
from vtune.domain.trial import TrialStatus

GIB = 2**30
RAM = 64 * GIB
OWN: dict[str, Scalar] = {"workers": 2, "prefetch_factor": 2, "batch_size": 2, "persistent_workers": False}


def a_gpu(peak: float, total: float = 24) -> GpuUse:
    return GpuUse(index=0, uuid="GPU-1", vram_peak_bytes=int(peak * GIB), vram_total_bytes=int(total * GIB))


def trial(
    number: int, asked: Mapping[str, Scalar] | None = None, *, ram: float = 8.0, vram: float = 8.0, **measured: Any
) -> TrialRecord:
    settings = {**OWN, **(asked or {})}
    told = {
        "effective_settings": settings,
        "ram_peak_bytes": int(ram * GIB),
        "shm_peak_bytes": 0,
        "workers_rss_bytes": (2 * GIB,) * int(str(settings["workers"])),
        "gpus": (a_gpu(vram),),
        "effective_batch": settings["batch_size"],
    }
    return a_trial(number, 10.0, asked=dict(asked or {}), settings=settings, measured={**told, **measured})


def model(*records: TrialRecord) -> Model:
    found = fit_model(records, cores=8, ram_total_bytes=RAM)
    assert found is not None
    return found


def ram_of(found: Model, asked: Mapping[str, Scalar]) -> tuple[float, float, float]:
    predicted = found.predict(asked)
    assert predicted is not None
    assert predicted.ram_bytes is not None
    assert predicted.ram_ci95 is not None
    return predicted.ram_bytes / GIB, predicted.ram_ci95[0] / GIB, predicted.ram_ci95[1] / GIB


def vram_of(found: Model, asked: Mapping[str, Scalar]) -> tuple[float, float, float]:
    predicted = found.predict(asked)
    assert predicted is not None
    assert predicted.vram_bytes is not None
    assert predicted.vram_ci95 is not None
    return predicted.vram_bytes / GIB, predicted.vram_ci95[0] / GIB, predicted.vram_ci95[1] / GIB


def limits(*, ram: float | None = None, vram: float | None = None) -> Limits:
    return Limits(
        ram=None if ram is None else Limit(bytes=int(ram * GIB), text=f"{ram:g}GiB"),
        vram=None if vram is None else Limit(bytes=int(vram * GIB), text=f"{vram:g}GiB"),
    )


def test_one_trial_leaves_open_how_much_of_a_worker_is_its_own() -> None:
    middle, low, high = ram_of(model(trial(1, ram=8)), {"workers": 8})
    # From next to nothing to all that a worker seems to hold.
    assert low < 9.5
    assert high > 18
    assert low < middle < high


def test_two_trials_tell_what_a_worker_takes() -> None:
    found = model(trial(1, ram=8), trial(2, {"workers": 4}, ram=10))
    middle, low, high = ram_of(found, {"workers": 8})
    assert middle == pytest.approx(14.0, rel=0.05)
    assert 11.0 < low < 14.0 < high < 17.0


def test_full_queues_come_on_top() -> None:
    batch = 256 * 2**20
    told = {"batch_bytes": batch, "batch_shm_bytes": batch}
    found = model(trial(1, ram=8, **told), trial(2, {"workers": 4}, ram=10, **told))
    shallow, deep = (ram_of(found, {"workers": 4, "prefetch_factor": prefetch})[0] for prefetch in (2, 8))
    assert deep - shallow == pytest.approx((needed_shm_bytes(batch, 4, 8) - needed_shm_bytes(batch, 4, 2)) / GIB)
    predicted = found.predict({"workers": 4, "prefetch_factor": 8})
    assert predicted is not None
    assert predicted.shm_bytes == needed_shm_bytes(batch, 4, 8)


def test_what_workers_leak_in_an_epoch_is_gathered_over_a_run_by_workers_that_stay() -> None:
    leak = RamGrowth(
        kind="leak", who="workers", bytes_per_step=4 * 2**20, steps=2000, to_come_bytes=2000 * 4 * 2**20, until="epoch"
    )
    base = trial(1, ram=8, ram_growth=(leak,), ram_projected_bytes=16 * GIB, samples_per_epoch=4000)
    found = model(base)
    assert ram_of(found, {})[0] == pytest.approx(8 + 2000 * 4 / 1024, rel=0.05)
    # 32 epochs of them.
    assert ram_of(found, {"persistent_workers": True})[0] > 32 * 7
    assert found.surely_too_big({"persistent_workers": True}, Limits()) is not None


def test_copies_on_write_go_with_the_number_of_workers() -> None:
    copies = RamGrowth(
        kind="copy_on_write", who="workers", bytes_per_step=2**20, cap_bytes=4 * GIB, to_come_bytes=3 * GIB
    )
    told = {"ram_growth": (copies,), "ram_projected_bytes": 11 * GIB}
    found = model(trial(1, ram=8, **told))
    assert ram_of(found, {"workers": 4})[0] - ram_of(found, {"workers": 2})[0] > 2.9


def test_a_queue_that_filled_up_in_the_window_is_no_leak_of_other_settings() -> None:
    filling = RamGrowth(kind="leak", who="shared", bytes_per_step=2**20, to_come_bytes=900 * GIB, until="run")
    found = model(trial(1, ram=8, ram_growth=(filling,), ram_projected_bytes=908 * GIB))
    assert ram_of(found, {"workers": 3})[2] < 20


def test_twice_the_batch_takes_at_most_twice_the_device() -> None:
    middle, low, high = vram_of(model(trial(1, vram=8)), {"batch_size": 4})
    assert 8 < low < middle < high < 16.5


def test_two_batch_sizes_tell_what_a_sample_takes() -> None:
    found = model(trial(1, vram=8), trial(2, {"batch_size": 4}, vram=12))
    middle, low, high = vram_of(found, {"batch_size": 8})
    assert middle == pytest.approx(20.0, rel=0.03)
    assert low < 20 < high < 22


def test_a_ladder_fed_from_memory_tells_of_larger_batches() -> None:
    ladder = tuple(
        Rung(batch_size=size, fits=True, steps=10, samples_per_s=10.0, vram_peak_bytes=int((3 + 2 * size) * GIB))
        for size in (2, 4, 8)
    )
    ceiling = trial(2, ceiling=Ceiling(ladder=(*ladder, Rung(batch_size=16, fits=False))))
    found = model(trial(1, vram=8), ceiling)
    # A gigabyte beside the allocator's own at batch 2, and as much at 8.
    assert vram_of(found, {"batch_size": 8})[0] == pytest.approx(20.0, rel=0.03)
    why = found.surely_too_big({"batch_size": 16}, Limits())
    assert why == "batch 16 of trial 2 ran out of VRAM, and this asks for no less of it"


def test_what_surely_passes_a_limit_is_said_with_the_number() -> None:
    found = model(trial(1, vram=8), trial(2, {"batch_size": 4}, vram=12))
    assert found.surely_too_big({"batch_size": 4}, limits(vram=16)) is None
    why = found.surely_too_big({"batch_size": 8}, limits(vram=16))
    assert why is not None
    assert "of VRAM, the limit is 16" in why
    assert found.surely_too_big({"batch_size": 32}, Limits()) is not None  # the device's own 24 GiB


def test_a_guess_rules_nothing_out() -> None:
    found = model(trial(1, ram=8))
    assert found.surely_too_big({"workers": 8}, limits(ram=12)) is None
    assert not found.fits({"workers": 8}, limits(ram=10))
    assert found.fits({"workers": 8}, Limits())


def out_of(status: TrialStatus, number: int, asked: dict[str, Scalar], **evidence: Any) -> TrialRecord:
    failure = a_failure(number, status, "out of it", asked=asked)
    return replace(failure, settings={**OWN, **asked}, evidence=evidence)


def test_nothing_that_needs_more_than_what_ran_out_is_called_feasible() -> None:
    found = model(trial(1), out_of(TrialStatus.OUT_OF_RAM, 2, {"workers": 6}))
    why = found.surely_too_big({"workers": 6, "prefetch_factor": 4}, Limits())
    assert why == "trial 2 ran out of RAM, and this asks for no less of it"
    assert found.surely_too_big({"workers": 8}, Limits()) is not None
    assert found.surely_too_big({"workers": 8, "batch_size": 1}, Limits()) is None
    assert found.surely_too_big({"workers": 4}, Limits()) is None


def test_a_batch_that_ran_out_of_vram_does_so_with_any_workers() -> None:
    found = model(trial(1), out_of(TrialStatus.OUT_OF_VRAM, 2, {"batch_size": 4}))
    assert found.surely_too_big({"batch_size": 4, "workers": 0}, Limits()) is not None
    assert found.surely_too_big({"batch_size": 3}, Limits()) is None


def test_queues_that_were_refused_are_not_asked_for_again() -> None:
    found = model(trial(1), out_of(TrialStatus.REFUSED, 2, {"workers": 8, "prefetch_factor": 8}))
    assert found.surely_too_big({"workers": 16, "prefetch_factor": 4}, Limits()) is not None
    assert found.surely_too_big({"workers": 8, "prefetch_factor": 4}, Limits()) is None


def test_a_limit_that_was_raised_since_rules_out_no_longer_what_it_ended() -> None:
    guard = {"limit_bytes": 16 * GIB, "is_default": False}
    ended = out_of(TrialStatus.OUT_OF_RAM, 2, {"workers": 6}, ended_by="limit", ram_guard=guard)
    found = model(trial(1), ended)
    assert found.surely_too_big({"workers": 6}, limits(ram=16)) is not None
    assert found.surely_too_big({"workers": 6}, limits(ram=32)) is None


def test_a_vram_limit_that_was_raised_since_rules_out_no_longer_what_it_ended() -> None:
    guard = {"limit_bytes": 16 * GIB, "device_bytes": 24 * GIB}
    found = model(trial(1), out_of(TrialStatus.OUT_OF_VRAM, 2, {"batch_size": 4}, ended_by="itself", vram_guard=guard))
    assert found.surely_too_big({"batch_size": 4}, limits(vram=16)) is not None
    assert found.surely_too_big({"batch_size": 4}, limits(vram=17)) is None
    assert found.surely_too_big({"batch_size": 4}, Limits()) is None


def test_what_ran_out_once_and_held_more_another_time_proves_nothing() -> None:
    found = model(trial(1), out_of(TrialStatus.OUT_OF_VRAM, 2, {"batch_size": 4}), trial(3, {"batch_size": 8}))
    assert found.surely_too_big({"batch_size": 4}, Limits()) is None


def test_what_no_instrument_told_is_not_known() -> None:
    found = model(trial(1, ram_peak_bytes=None, gpus=(), vram_peak_bytes=None))
    predicted = found.predict({"workers": 4})
    assert predicted is not None
    assert (predicted.ram_bytes, predicted.vram_bytes, predicted.shm_bytes) == (None, None, None)
    assert found.fits({"workers": 4}, limits(ram=1, vram=1))
