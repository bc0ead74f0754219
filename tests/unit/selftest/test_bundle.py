"""A bundle that was made by a real self-test, judged again; and with one value changed."""

from __future__ import annotations

import json
import platform
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.selftest import CellResult
from vtune.errors import UsageError
from vtune.selftest.bundle import STDERR_CHARS, replay, write_bundle
from vtune.selftest.cells import CPU_CELLS
from vtune.selftest.sanitize import Sanitizer

RECORDED = Path(__file__).resolve().parents[2] / "recorded" / "selftest-cpu.zip"


def changed(target: Path, name: str, change: Callable[[Any], Any]) -> Path:
    """The recorded bundle with one of its JSON files (or each line of one) changed."""
    with zipfile.ZipFile(RECORDED) as old, zipfile.ZipFile(target, "w") as new:
        assert name in old.namelist()
        for entry in old.namelist():
            text = old.read(entry)
            if entry == name and name.endswith(".jsonl"):
                text = b"".join(json.dumps(change(json.loads(line))).encode() + b"\n" for line in text.splitlines())
            elif entry == name:
                text = json.dumps(change(json.loads(text))).encode()
            new.writestr(entry, text)
    return target


def red(cells: tuple[CellResult, ...]) -> list[str]:
    return [cell.cell for cell in cells if cell.status == "failed"]


def test_the_recorded_bundle_gives_the_verdicts_that_stand_in_its_table() -> None:
    with zipfile.ZipFile(RECORDED) as bundle:
        table = {cell["cell"]: cell for cell in json.loads(bundle.read("table.json"))}
    again = replay(RECORDED, CPU_CELLS)
    assert {cell.cell: cell.status for cell in again} == {cell.name: table[cell.name]["status"] for cell in CPU_CELLS}
    assert [cell.sentence for cell in again] == [table[cell.cell]["sentence"] for cell in again]
    assert red(again) == []


def double(stage: dict[str, Any]) -> dict[str, Any]:
    return {**stage, "seen_tree_bytes": 2 * stage["seen_tree_bytes"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("memory/stages.json", lambda stages: [*stages[:2], *(double(one) for one in stages[2:])], "memory"),
        ("kill/kill.json", lambda seen: {**seen, "left": {**seen["left"], "processes": 3}}, "killed"),
        pytest.param("kill/kill.json", lambda seen: {**seen, "signal": None}, "killed", marks=pytest.mark.slow),
        pytest.param("kill/kill.json", lambda seen: {**seen, "sampler_core": 0.05}, "sampler", marks=pytest.mark.slow),
        ("turns/turns.json", lambda seen: {**seen, "watched": [1.2 * s for s in seen["watched"]]}, "instrumentation"),
        pytest.param(
            "turns/turns.json", lambda seen: {**seen, "recorded": False}, "instrumentation", marks=pytest.mark.slow
        ),
        ("loader-2/truth.jsonl", lambda row: {**row, "stepped": 2 * row.get("stepped", 0)}, "rate_2"),
        pytest.param("loader-6/truth.jsonl", lambda row: {**row, "worker": 0}, "workers", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_one_changed_value_turns_its_own_cell_red(
    tmp_path: Path, name: str, change: Callable[[Any], Any], expected: str
) -> None:
    assert red(replay(changed(tmp_path / "b.zip", f"records/{name}", change), CPU_CELLS)) == [expected]


@pytest.mark.slow
def test_a_file_on_a_disk_in_memory_decides_nothing_of_page_cache(tmp_path: Path) -> None:
    """There a mapped file is memory of the tree, and is rightly counted as such."""
    bundle = changed(tmp_path / "b.zip", "records/memory/run.json", lambda note: {**note, "filesystem": "tmpfs"})
    cells = {cell.cell: cell for cell in replay(bundle, CPU_CELLS)}
    assert cells["mapped_file"].status == "not_judged" and "on tmpfs" in cells["mapped_file"].sentence
    assert cells["memory"].status == "passed"


def test_a_slow_clock_leaves_the_rates_unjudged(tmp_path: Path) -> None:
    def slower(row: dict[str, Any]) -> dict[str, Any]:
        return {key: 1.2 * value if key in ("asked", "got", "stepped") else value for key, value in row.items()}

    again = replay(changed(tmp_path / "b.zip", "records/loader-4/truth.jsonl", slower), CPU_CELLS)
    assert red(again) == ["clocks"]
    assert {cell.status for cell in again if cell.cell.startswith("rate_")} == {"not_judged"}


def test_the_recorded_bundle_tells_of_no_machine_account_or_folder() -> None:
    with zipfile.ZipFile(RECORDED) as bundle:
        for name in bundle.namelist():
            text = bundle.read(name).decode("latin-1")
            for path in ("/home/", "/root", "/tmp", "/usr/", "/opt/"):
                assert path not in text, name
            assert '"host"' not in text and '"env"' not in text and '"token"' not in text, name


def test_only_files_that_are_known_by_name_are_packed(tmp_path: Path) -> None:
    run = tmp_path / "records" / "loader-1"
    (run / "trial" / "output").mkdir(parents=True)
    (run / "run.json").write_text('{"window_steps": 50}')
    (run / "trial" / "output" / "model.pt").write_text("weights")
    (run / "trial" / "stdout.log").write_text("what the training printed")
    (run / "trial" / "spec.json").write_text('{"command": ["/home/me/python"], "env": {"KEY": "v"}, "cwd": "/home/me"}')
    write_bundle(tmp_path / "b.zip", tmp_path / "records", (), {}, Sanitizer({}, {}), made="2026-01-01")
    with zipfile.ZipFile(tmp_path / "b.zip") as bundle:
        assert sorted(bundle.namelist()) == [
            "about.json", "records/loader-1/run.json", "records/loader-1/trial/spec.json", "table.json",
        ]  # fmt: skip
        assert json.loads(bundle.read("records/loader-1/trial/spec.json")) == {"command": ["<path>"]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.zip", "records"]


@pytest.mark.slow
def test_a_secret_across_the_cut_of_a_long_output_leaves_no_half(tmp_path: Path) -> None:
    trial = tmp_path / "records" / "loader-1" / "trial"
    trial.mkdir(parents=True)
    secret = "planted-secret-of-some-length"
    for shift in range(0, len(secret), 14):
        words = "first\n" + secret + "\n" + "x" * (STDERR_CHARS - shift - 1)
        (trial / "stderr.log").write_text(words)
        clean = Sanitizer({}, {}, [secret])
        write_bundle(tmp_path / "b.zip", tmp_path / "records", (), {}, clean, made="2026-01-01")
        with zipfile.ZipFile(tmp_path / "b.zip") as bundle:
            kept = bundle.read("records/loader-1/trial/stderr.log").decode()
        assert len(kept) <= STDERR_CHARS and not any(secret[n : n + 4] in kept for n in range(len(secret) - 3))


def test_of_a_trials_spec_and_outcome_only_known_fields_are_packed(tmp_path: Path) -> None:
    trial = tmp_path / "records" / "loader-1" / "trial"
    trial.mkdir(parents=True)
    (trial / "spec.json").write_text('{"trial": 1, "comment": "for Acme"}')
    (trial / "outcome.json").write_text('{"exit_code": 0, "owner": "alice"}')
    write_bundle(tmp_path / "b.zip", tmp_path / "records", (), {}, Sanitizer({}, {}), made="2026-01-01")
    with zipfile.ZipFile(tmp_path / "b.zip") as bundle:
        kept = [json.loads(bundle.read(f"records/loader-1/trial/{name}.json")) for name in ("spec", "outcome")]
    assert kept == [{"trial": 1}, {"exit_code": 0}]


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_text("hello")
    with pytest.raises(UsageError, match="no bundle of a self-test"):
        replay(tmp_path / "b.zip", CPU_CELLS)


def test_the_host_is_not_in_the_recorded_bundle_by_chance() -> None:
    """Also when this suite runs on the machine that made it."""
    with zipfile.ZipFile(RECORDED) as bundle:
        about = json.loads(bundle.read("about.json"))
    assert platform.node() not in json.dumps(about).replace('"', " ").split()
