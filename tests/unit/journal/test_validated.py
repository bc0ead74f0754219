"""Which machines have passed: remembered for the account, believed only as far as it was shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtune.journal import validated

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "vtune" / "validated.json"


def passes(*gpus: str, driver: str | None = "580.65", torch: str = "2.13.0") -> None:
    validated.remember(gpus, driver, torch=torch, vtune="9.9", when="2026-01-01")


def passed(gpus: list[str], driver: str | None, *, torch: str | None = "2.13.0") -> bool:
    return validated.is_validated(gpus, driver, torch=torch)


def test_nothing_is_validated_before_something_passed() -> None:
    assert not passed([A100], "580.65")
    assert not passed([], None)


def test_the_same_kind_of_gpu_with_the_same_driver_and_torch_is() -> None:
    passes(A100, A100)
    assert passed([A100], "580.65", torch="2.13.0")
    assert passed([A100, A100], "580.65")


def test_another_gpu_driver_or_torch_is_not() -> None:
    passes(A100)
    assert not passed([H100], "580.65")
    assert not passed([A100, H100], "580.65")
    assert not passed([A100], "590.10")
    assert not passed([A100], "580.65", torch="2.14.0")
    assert not passed([A100], "580.65", torch=None)


def test_a_pass_on_the_cpu_says_nothing_of_gpus_nor_the_other_way_round() -> None:
    passes(driver=None)
    assert passed([], None) and not passed([A100], None)
    validated.forget([], None, torch="2.13.0")
    passes(A100, driver=None)
    assert not passed([], None)


def test_a_later_failure_takes_the_pass_back() -> None:
    passes(A100)
    passes(H100)
    validated.forget([A100], "580.65", torch="2.13.0")
    assert not passed([A100], "580.65") and passed([H100], "580.65")


def test_passing_twice_is_one_entry() -> None:
    passes(A100)
    passes(A100)
    assert len(validated.entries()) == 1


@pytest.mark.parametrize("text", ["", "[", "null", '{"gpus": []}', '[1, {"gpus": "A100"}]'])
def test_a_torn_or_foreign_file_counts_for_nothing(state: Path, text: str) -> None:
    state.parent.mkdir()
    state.write_text(text)
    assert not passed([A100], "580.65")
    passes(A100)
    assert passed([A100], "580.65")


def test_without_a_named_place_it_is_below_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("", "relative/state"):
        monkeypatch.setenv("XDG_STATE_HOME", named)
        assert validated.validated_file() == tmp_path / ".local/state/vtune/validated.json"
