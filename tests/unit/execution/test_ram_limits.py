from __future__ import annotations

from pathlib import Path

import pytest

from vtune.execution.ram_limits import ram_limits

GIB = 2**30


def proc(root: Path, *, total: float, available: float) -> Path:
    root.mkdir(exist_ok=True)
    kib = {"MemTotal": total, "MemFree": 1.0, "MemAvailable": available, "Cached": 1.0, "Shmem": 0.0}
    (root / "meminfo").write_text("".join(f"{name}: {int(gib * 2**20)} kB\n" for name, gib in kib.items()))
    return root


def test_a_limit_that_was_named_is_taken_as_it_is(tmp_path: Path) -> None:
    found = ram_limits(7 * GIB, proc(tmp_path, total=64, available=60))
    assert (found.ram_bytes, found.ram_is_default) == (7 * GIB, False)


@pytest.mark.parametrize(("total", "reserve"), [(2, 0.25), (16, 1.0), (64, 3.2), (1024, 51.2)])
def test_without_one_the_machine_keeps_a_reserve(tmp_path: Path, total: float, reserve: float) -> None:
    found = ram_limits(None, proc(tmp_path, total=total, available=0.9 * total))
    assert found.ram_is_default
    assert found.reserve_bytes == pytest.approx(reserve * GIB, rel=0.001)
    assert found.ram_bytes == pytest.approx((0.9 * total - reserve) * GIB, rel=0.001)


def test_what_others_hold_now_is_not_the_trials(tmp_path: Path) -> None:
    before = ram_limits(None, proc(tmp_path, total=64, available=60)).ram_bytes
    after = ram_limits(None, proc(tmp_path, total=64, available=40)).ram_bytes
    assert before is not None and after is not None
    assert before - after == pytest.approx(20 * GIB, rel=0.001)


def test_on_a_full_machine_half_of_the_rest_may_be_taken(tmp_path: Path) -> None:
    found = ram_limits(None, proc(tmp_path, total=64, available=1))
    assert found.ram_bytes == pytest.approx(GIB / 2, rel=0.001)
    assert found.floor_bytes is not None and found.floor_bytes <= GIB / 4
    assert found.reserve_bytes == pytest.approx(GIB / 2, rel=0.001)


def test_a_limit_of_vtunes_own_is_not_told_as_the_users(tmp_path: Path) -> None:
    found = ram_limits(48 * GIB, proc(tmp_path, total=64, available=60), by_user=False)
    assert (found.ram_bytes, found.ram_is_default) == (48 * GIB, True)
    assert found.reserve_bytes == pytest.approx(12 * GIB, rel=0.001)


@pytest.mark.parametrize("limit", [GIB, 100 * GIB])
def test_the_kernels_wall_stands_behind_the_limit_and_near_it(tmp_path: Path, limit: int) -> None:
    found = ram_limits(limit, proc(tmp_path, total=256, available=200))
    assert found.wall_bytes is not None and limit < found.wall_bytes <= 1.06 * limit


def test_where_nothing_is_known_there_is_no_limit(tmp_path: Path) -> None:
    found = ram_limits(None, tmp_path)
    assert (found.ram_bytes, found.floor_bytes, found.wall_bytes, found.group) == (None, None, None, None)
    assert not found.ram_is_default
