"""Cells that fail alone, that are repeated when others disturbed them, and that rest on others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from vtune.domain.selftest import CellResult, CellStatus, colour_of, why_not_validated
from vtune.errors import MachineError
from vtune.selftest import verdicts
from vtune.selftest.bench import Bench
from vtune.selftest.cells import Cell
from vtune.selftest.readings import Records
from vtune.selftest.run import check_space, judge_cells, run_cells, work_folder
from vtune.telemetry.machine import this_machine


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with work_folder(tmp_path / "results", this_machine()) as study:
        yield Bench(python="python", inject=tmp_path, machine=this_machine(), study=study, records=tmp_path / "records")


def writes(name: str, values: list[float], *, others_cores: float) -> Callable[[Bench], None]:
    """A run that gives one value after the other, however often it is asked."""

    def run(bench: Bench) -> None:
        bench.note(bench.folder(name), others_cores=others_cores, value=values.pop(0))

    return run


def a_cell(name: str, *, needs: tuple[str, ...] = (), compares_times: bool = False) -> Cell:
    def judge(records: Records) -> verdicts.Verdict:
        value = records.note(name)["value"]
        return verdicts.judged(value < 1, f"expected less than 1, seen {value}")

    return Cell(name=name, title=name, runs=(name,), judge=judge, needs=needs, compares_times=compares_times)


def results(bench: Bench, cells: list[Cell], **runs: Callable[[Bench], None]) -> tuple[CellResult, ...]:
    return run_cells(bench, cells, runs, lambda event: None)


def test_a_failure_that_others_disturbed_is_tried_once_more(bench: Bench) -> None:
    [cell] = results(bench, [a_cell("a")], a=writes("a", [5.0, 0.5], others_cores=1.2))
    assert cell.status == "passed" and cell.repeated


def test_a_failure_that_stays_says_who_disturbed_it(bench: Bench) -> None:
    [cell] = results(bench, [a_cell("a")], a=writes("a", [5.0, 6.0], others_cores=1.2))
    assert cell.status == "failed" and cell.repeated
    assert cell.sentence == (
        "expected less than 1, seen 6.0 (disturbed by others: 1.2 cores, also when it was repeated)"
    )


def test_a_failure_on_a_quiet_machine_is_not_repeated(bench: Bench) -> None:
    [cell] = results(bench, [a_cell("a")], a=writes("a", [5.0], others_cores=0.0))
    assert cell.status == "failed" and not cell.repeated and "disturbed" not in cell.sentence


def test_a_failed_comparison_of_times_is_tried_once_more_on_any_machine(bench: Bench) -> None:
    cells = [a_cell("a", compares_times=True), a_cell("b", compares_times=True)]
    a, b = results(
        bench, cells, a=writes("a", [5.0, 0.5], others_cores=0.0), b=writes("b", [5.0, 6.0], others_cores=0.0)
    )
    assert (a.status, b.status) == ("passed", "failed") and a.repeated and b.repeated
    assert "disturbed" not in b.sentence


def test_a_cell_that_rests_on_a_failed_one_is_not_judged(bench: Bench) -> None:
    cells = [a_cell("clock"), a_cell("rate", needs=("clock",)), a_cell("other")]
    clock, rate, other = results(
        bench, cells,
        clock=writes("clock", [5.0], others_cores=0.0), rate=writes("rate", [5.0], others_cores=0.0),
        other=writes("other", [0.0], others_cores=0.0),
    )  # fmt: skip
    assert (clock.status, rate.status, other.status) == ("failed", "not_judged", "passed")
    assert rate.sentence == "not judged: clock failed, and this rests on it"


def test_a_run_that_breaks_leaves_its_own_cell_unjudged_and_fails_none(bench: Bench) -> None:
    def missing(bench: Bench) -> None:
        raise MachineError("torch is not there", hint="install it")

    def broken(bench: Bench) -> None:
        raise ValueError("odd")

    one, two, three = results(
        bench, [a_cell("a"), a_cell("b"), a_cell("c")],
        a=missing, b=broken, c=writes("c", [0.0], others_cores=0.0),
    )  # fmt: skip
    assert (one.status, two.status, three.status) == ("not_judged", "not_judged", "passed")
    assert one.sentence == "not judged, could not be carried out: torch is not there" and "odd" in two.sentence
    assert colour_of((one, two, three)) == "incomplete"


def test_records_that_cannot_be_read_are_not_judged_and_missing_ones_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text("{}")
    torn, missing = judge_cells(Records(tmp_path), [a_cell("a"), a_cell("b")])
    assert torn.status == "not_judged" and "cannot be read" in torn.sentence
    assert missing.status == "not_run"


def of_statuses(*statuses: CellStatus) -> list[CellResult]:
    return [
        CellResult(cell=f"c{number}", title="", gpu=False, status=status, sentence="")
        for number, status in enumerate(statuses, 1)
    ]


@pytest.mark.parametrize(("statuses", "colour", "why_not"), [
    (("passed", "not_run"), "green", None),
    (("passed", "inconclusive"), "green", "1 cell undecided (c2): run it again on a quiet machine"),
    (("passed", "not_judged", "not_judged"), "incomplete", "2 cells could not be judged (c2, c3)"),
    (("passed", "failed", "not_judged"), "red", "a measurement is wrong here"),
    (("not_run",), "incomplete", "nothing was shown"),
    ((), "incomplete", "nothing was shown"),
])  # fmt: skip
def test_only_a_wrong_value_is_red_and_only_what_was_shown_is_validated(
    statuses: tuple[CellStatus, ...], colour: str, why_not: str | None
) -> None:
    cells = of_statuses(*statuses)
    assert colour_of(cells) == colour and why_not_validated(cells) == why_not


def test_what_rests_on_a_cell_that_could_not_be_carried_out_is_not_judged_either(bench: Bench) -> None:
    def missing(bench: Bench) -> None:
        raise MachineError("torch is not there", hint="install it")

    cells = [a_cell("clock"), a_cell("rate", needs=("clock",))]
    _, rate = results(bench, cells, clock=missing, rate=writes("rate", [5.0], others_cores=0.0))
    assert rate.sentence == "not judged: clock was not judged, and this rests on it"


def test_a_disk_that_is_too_full_is_told_with_what_is_needed_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"needs [\d.e+]+ TiB free in .*/new, there are .*iB") as caught:
        check_space(tmp_path / "new", needed_bytes=2**60)
    assert caught.value.hint is not None and "--results" in caught.value.hint
    check_space(tmp_path / "new", needed_bytes=1)
    assert not (tmp_path / "new").exists()


def test_a_script_that_ends_by_itself_is_quoted_with_its_last_words(bench: Bench, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise OSError(28, 'No space left on device')")
    python = replace(bench, python=sys.executable)
    with python.script(script) as running, pytest.raises(MachineError) as caught:
        running.answer()
    assert caught.value.message.endswith("exit code 1; its last words: OSError: [Errno 28] No space left on device")


def test_the_work_folder_goes_with_what_was_made_for_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with work_folder(kept, this_machine()):
        assert (kept / ".selftest").is_dir()
    assert list(kept.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), work_folder(tmp_path / "made", this_machine()):
        raise KeyboardInterrupt
    assert not (tmp_path / "made").exists()


def test_what_a_killed_self_test_left_is_swept_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "results" / ".selftest" / "cells-1"
    (left / "trials" / "0001").mkdir(parents=True)
    (left / ".lock").touch()
    with work_folder(tmp_path / "results", this_machine()):
        assert not left.exists()


def test_a_second_self_test_at_the_same_time_is_refused(tmp_path: Path) -> None:
    with (
        work_folder(tmp_path / "results", this_machine()),
        pytest.raises(Exception, match="another self-test runs"),
        work_folder(tmp_path / "results", this_machine()),
    ):
        pass


def test_a_run_may_write_its_own_count_where_it_is_read(bench: Bench, tmp_path: Path) -> None:
    experiment = bench.experiment(tmp_path, (), steps=5)
    assert str(tmp_path / "truth.jsonl") in experiment.workload.command and experiment.writes.real
