"""Real trainings whose loader workers read the same data, and some that only look so: the quick part of
benchmarks/repeats, and what every command says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli import ROOT, Said, vtune

REPEATS = ROOT / "benchmarks" / "repeats"
TRAINING = REPEATS / "training.py"
SEEDED = "self.rng = np.random.default_rng(0)"


def probe(out: Path, case: str, workers: int, *options: str) -> Said:
    return vtune(
        "probe", "--study", "s", "--steps", "30", "--results", out, *options, "--",
        sys.executable, TRAINING, case, "--workers", str(workers),
    )  # fmt: skip


def trial(out: Path, case: str, workers: int, *options: str) -> dict[str, Any]:
    said = probe(out, case, workers, "--json", *options)
    assert "trial" in said.json, said.stdout + said.stderr
    record: dict[str, Any] = said.json["trial"]
    return record


def line_of(where: str) -> str:
    file, _, number = where.rpartition(":")
    return Path(file).read_text(encoding="utf-8").splitlines()[int(number) - 1].strip()


def test_copies_of_a_generator_are_no_gain_and_the_users_own_are_named_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    turned = trial(out, "own_rng", 0, "--set", "workers=2")
    assert turned["status"] == "invalid"
    found = turned["repeated"]
    assert (found["reason"], found["generator"], found["workers"]) == ("same_numbers", "self.rng", 2)
    assert line_of(found["where"]) == SEEDED
    assert found["where"] in turned["detail"] and "get_worker_info" in turned["next"][0]

    own = tmp_path / "own"
    shown = probe(own, "own_rng", 2)
    first = [line for line in shown.stdout.splitlines() if line.strip(" │╭╮─")][:6]
    assert "your present settings repeat data" in "".join(first)
    record = json.loads((own / "s" / "journal.jsonl").read_text())
    assert (record["status"], record["repeated"]["reason"]) == ("completed", "same_numbers")
    assert record["samples_per_s"] > 0 and not any("--set workers=" in line for line in record["next"])
    # Neither command of what comes next drops it.
    for command in (("apply",), ("launch", "--dry-run"), ("report",)):
        said = vtune(*command, "--study", "s", "--results", own)
        assert "same random numbers" in " ".join((said.stdout + said.stderr).replace("│", " ").split()), command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("own_rng_spawned", "same_numbers"),
        ("own_state_in_transform", "same_numbers"),
        ("numpy_seeded_alike", "same_numbers"),
        ("pops", "next_record"),
        ("made_late_until_accepted", "same_numbers"),
        ("made_by_hand", "same_numbers"),
        ("walks_an_order", "next_record"),
        ("iterable_unused_info", "same_samples"),
        ("iterable_commented", "not_shown"),
        ("clean", None),
        ("rng_by_index", None),
        ("rng_jumps_by_worker", None),
        ("walks_its_own_order", None),
        ("counts_only", None),
        ("few_with_replacement", None),
        ("iterable_in_large_parts", None),
        ("iterable_shuffled_then_shared", None),
    ],
)
def test_what_workers_really_read_decides(tmp_path: Path, case: str, reason: str | None) -> None:
    found = trial(tmp_path / "out", case, 0, "--set", "workers=2")
    assert (found["repeated"] or {}).get("reason") == reason
    assert found["status"] == ("completed" if reason is None else "invalid")


@pytest.mark.slow
def test_a_run_without_workers_tells_one_that_counts_from_one_that_repeats_itself(tmp_path: Path) -> None:
    for case, status in (("counts_in_order", "invalid"), ("few_in_order", "completed")):
        out = tmp_path / case
        assert trial(out, case, 0)["status"] == "completed"
        assert trial(out, case, 0, "--set", "workers=2")["status"] == status
