import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.records import a_gpu_record
from support.studies import a_failure, a_report, a_trial
from vtune.analysis.judge import NOT_VALIDATED
from vtune.domain.experiment import Price
from vtune.reporting.csv_table import COLUMNS, csv_table

FOUR = {"workers": 4}


def rows(*records, **fields) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_table(a_report(*records, **fields)))))


def test_the_documented_columns_are_the_columns_in_their_order(root: Path) -> None:
    page = (root / "docs" / "report.md").read_text(encoding="utf-8")
    table = page.partition("## trials.csv")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE)
    assert [name for name, _ in documented] == [name for name, _ in COLUMNS]
    assert all(unit.strip() for _, unit in documented)


def test_one_row_a_trial_with_its_numbers_at_full_precision() -> None:
    first, second, third = rows(a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR), a_failure(3))
    assert (first["trial"], first["baseline"], first["best"], first["speedup"]) == ("1", "true", "false", "1.0")
    assert (second["workers"], second["best"], second["samples_per_s"]) == ("4", "true", "31.0")
    assert float(second["speedup_low"]) < float(second["speedup"]) < float(second["speedup_high"])
    assert third["status"] == "crashed" and third["samples_per_s"] == third["speedup"] == third["ram_peak_bytes"] == ""
    assert "exit code 1" in third["lost_because"]


def test_unknown_is_empty_and_never_zero() -> None:
    (row,) = rows(a_failure(1))
    numbers = ("samples_per_s", "vram_peak_bytes", "gpu_power_w", "run_s", "cost", "data_wait_fraction", "epoch_s")
    assert {row[name] for name in numbers} == {""}
    (seen,) = rows(replace(a_gpu_record(trial=1), asked={}), price=Price(per_hour=2.0, currency="EUR"))
    assert (seen["gpus"], seen["gpu_util_percent"], seen["alloc_retries"]) == ("1", "17.2", "0")
    assert seen["currency"] == "EUR"


def test_lines_end_as_rfc_4180_has_it() -> None:
    text = csv_table(a_report(a_trial(1, 10.0)))
    assert text.count("\r\n") == 2 and text.replace("\r\n", "").count("\n") == 0


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "a\r\n=b", "\t@x", "x" * 10_000, "\x1b[2J", 'a,b"c;=d'])
def test_hostile_text_is_inert_wherever_it_stands(text: str) -> None:
    record = replace(
        a_trial(1, 10.0), origin=text, reason=text, detail=text, notes=(text,), settings={"workers": text, text: text}
    )
    table = csv_table(a_report(record, a_failure(2, detail=text)))
    head, *lines = csv.reader(io.StringIO(table))
    assert len(lines) == 2 and {len(line) for line in lines} == {len(head)}
    assert all(len(cell) <= 1010 for line in [head, *lines] for cell in line)
    for cell in (cell for line in [head, *lines] for cell in line):
        assert cell.isprintable() and not cell.startswith(("=", "+", "@")) and not re.search(r"; *=", cell)
        assert not cell.startswith("-") or float(cell) < 0


def test_settings_that_are_no_knobs_get_columns_of_their_own() -> None:
    table = csv_table(a_report(replace(a_trial(1, 10.0), settings={"workers": 1, "samples_per_s": 5, "lr": -0.1})))
    (row,) = csv.DictReader(io.StringIO(table))
    assert (row["setting.samples_per_s"], row["setting.lr"], row["samples_per_s"]) == ("5", "-0.1", "10.0")


def test_what_is_noted_of_a_trial_stands_in_its_row() -> None:
    (row,) = rows(replace(a_gpu_record(trial=1), asked={}, notes=(NOT_VALIDATED, "and more")))
    assert row["notes"] == f"{NOT_VALIDATED}; and more" and row["vram_from"] == "driver"
    assert rows(a_trial(1, 10.0))[0]["vram_from"] == ""


def test_it_says_of_which_memory_a_trial_is_on_the_front() -> None:
    least = a_trial(1, 10.0, measured={"ram_peak_bytes": 2**30})
    fastest, wasteful = (
        a_trial(number, rate, asked={"workers": number}, measured={"ram_peak_bytes": number * 2**30})
        for number, rate in ((2, 30.0), (3, 20.0))
    )
    assert [row["on_front"] for row in rows(least, fastest, wasteful)] == ["RAM", "RAM", ""]
