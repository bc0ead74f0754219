"""Memory that is going to happen: a short trial's projection against the same training, run ten times as long and
measured from outside. One case of each kind; the table of all is `benchmarks/memory/run.py`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory.run import BAR, CASES, ENDLESS, peak_of_a_long_run, probed
from support.cli import vtune

MIB = 2**20

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leak in the training, 4 MiB a step", "leaks"),
        ("leak in six persistent workers, 1 MiB a step of 5 ms", "leaks"),
        ("copies of 300 000 dicts, two workers, 64 a batch", "copy the data set's pages"),
    ],
)
def test_the_ram_of_a_run_ten_times_as_long_is_projected(name: str, said: str, tmp_path: Path) -> None:
    case = CASES[name]
    # Side by side: both mostly sleep, and what each of them holds is its own.
    with ThreadPoolExecutor() as beside:
        long_run = beside.submit(peak_of_a_long_run, case.flags)
        trial = probed(case.flags, tmp_path)
    assert [(one["kind"], one["who"]) for one in trial["ram_growth"]] == list(case.growth)
    assert trial["ram_projected_bytes"] == pytest.approx(long_run.result(), rel=BAR)
    assert said in " ".join(trial["why"])


@pytest.mark.parametrize(
    "name", ["nothing grows, 64 MiB come and go in each step", "nothing grows, three persistent workers"]
)
def test_a_training_that_does_not_grow_is_not_projected_to(name: str, tmp_path: Path) -> None:
    trial = probed(CASES[name].flags, tmp_path, run=ENDLESS)
    assert trial["ram_growth"] == []
    assert trial["ram_projected_bytes"] == pytest.approx(trial["ram_peak_bytes"], rel=0.02)


def test_settings_whose_run_would_pass_the_limit_are_told_to_and_lose(tmp_path: Path) -> None:
    flags = ("--items", "20000", "--leak-in-main", str(2 * MIB))
    trial = probed(flags, tmp_path, "--ram-limit", "1GiB")
    assert trial["ram_peak_bytes"] < 2**30 < trial["ram_projected_bytes"]
    assert any("passes the RAM limit of 1 GiB" in line and "at step" in line for line in trial["why"])
    assert any(".detach()" in line for line in trial["next"])
    report = vtune("report", "--results", tmp_path / "results", "--ram-limit", "1GiB")
    assert "would grow to" in report.stdout


def test_queues_without_room_in_shared_memory_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    flags = ("--items", "20000", "--floats", "100000")
    assert probed(flags, tmp_path)["batch_bytes"] == 16 * (100_000 * 4 + 8)
    more = ("--set", "workers=64", "--set", "prefetch_factor=1024")
    said = vtune(
        "probe",
        "--config",
        tmp_path / "experiment.yaml",
        "--results",
        tmp_path / "results",
        *more,
        "--json",
        cwd=tmp_path,
    )
    trial = said.json["trial"]
    assert (said.code, trial["status"], trial["trial"]) == (4, "refused", 2)
    assert "64 workers with prefetch_factor 1024" in trial["detail"]
    assert any("would fit" in line for line in trial["next"]) and "--shm-size=" in trial["next"][-1]
    (study,) = {path.parent.parent for path in (tmp_path / "results").glob("*/trials/0002")}
    assert len((study / "journal.jsonl").read_text().splitlines()) == 2
    assert not list((study / "trials" / "0002").glob("std*.log"))
