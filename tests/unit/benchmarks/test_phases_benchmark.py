"""The benchmark of plans: what fits by a surface's own arithmetic, and its table."""

from __future__ import annotations

from phases import run
from vtune.execution.engines.simulated.surfaces import LITTLE_RAM, SCROLLS


def test_what_fits_is_under_both_limits() -> None:
    # 9 + 12 × (6.5 + 0.4) GiB and 26 batches of 11 MiB, of 60 % of 170; a batch of 5 would be 81 of 76 GiB.
    assert run.fits(SCROLLS, 12, 1, 2) and not run.fits(SCROLLS, 14, 1, 2)
    assert run.fits(SCROLLS, 1, 4, 2) and not run.fits(SCROLLS, 1, 5, 2)


def test_the_grid_is_of_settings_that_fit_and_of_no_batch_below_the_users_own() -> None:
    found = list(run.grid(LITTLE_RAM))
    assert found and all(one["batch_size"] in (2, 4, 8, 16) and one["workers"] for one in found)
    assert max(int(one["workers"] or 0) for one in found) < 6


def test_the_table_tells_races_apart_and_what_is_left() -> None:
    plans = {"ladder": {"trials": 7, "raced": 6, "gain": 1.0895, "regret": 0.002}}
    row = {"training": "device-bound", "settings": 96, "best_gain": 1.092, "plans": plans}
    assert run.table([row], ["ladder"])[-1] == "| device-bound | 96 | 1.09 | 7 + 6 of a race | 1.09 | 0.2 % |"
