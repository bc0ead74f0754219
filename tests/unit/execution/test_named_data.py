"""Whether the data that a config names are still those of a trial, and who changed them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_trial
from vtune.domain.experiment import Workload
from vtune.domain.record import TrialRecord
from vtune.execution.named_data import changed_data, data_evidence, data_prints


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    for name in ("images/a/1.tif", "out/last.pt", "results/demo/journal.jsonl", "list.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    return Workload(
        command=("python", "train.py", "--list=list.txt", "--root", "."),
        cwd=tmp_path,
        config={"data": {"image_dir": "images"}, "output_dir": "out", "mode": "results", "gone_dir": "gone"},
    )


def prints(workload: Workload) -> dict[str, str]:
    return dict(data_prints(workload, workload.cwd / "results"))


def test_data_are_the_files_and_folders_that_config_and_command_name(workload: Workload) -> None:
    assert prints(workload).keys() == {"images", "list.txt"}


def test_they_have_changed_with_a_name_a_size_or_a_time_wherever_it_lies(workload: Workload) -> None:
    before = prints(workload)
    assert prints(workload) == before
    (workload.cwd / "images" / "a" / "1.tif").write_text("23")
    (workload.cwd / "out" / "more.pt").touch()
    after = prints(workload)
    assert after["images"] != before["images"] and after["list.txt"] == before["list.txt"]


def ran(trial: int, before: str, after: str) -> TrialRecord:
    return replace(a_trial(trial, 10.0), evidence=data_evidence({"images": before}, {"images": after}))


def test_only_what_others_than_the_studys_own_runs_changed_has_changed() -> None:
    first = ran(1, "a", "b")
    assert changed_data(first, [], {"images": "b"}) == []
    assert changed_data(first, [], {"images": "c"}) == ["images"]
    assert changed_data(first, [], {}) == ["images"]
    # A later trial wrote its index anew; or somebody changed them before it.
    assert changed_data(first, [ran(2, "b", "c")], {"images": "c"}) == []
    assert changed_data(first, [ran(2, "x", "c")], {"images": "c"}) == ["images"]
    # Both attempts of a launch tell of the whole launch.
    assert changed_data(first, [ran(2, "b", "c"), ran(3, "b", "c")], {"images": "c"}) == []


def test_of_a_trial_that_does_not_tell_nothing_is_known_to_have_changed() -> None:
    assert changed_data(a_trial(1, 10.0), [ran(2, "b", "c")], {"images": "d"}) == []
