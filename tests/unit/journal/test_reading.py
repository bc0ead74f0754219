"""Journals as they are found: torn, foreign, older, newer."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.records import a_gpu_record, a_record
from support.studies import a_trial, write_study
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.journal.find_study import find_study, study_names
from vtune.journal.journal import Journal, JournalText
from vtune.journal.records import SCHEMA, record_to_json
from vtune.journal.sound import is_sound


def a_line(**changes: object) -> bytes:
    return json.dumps({**record_to_json(a_gpu_record(trial=1)), **changes}).encode() + b"\n"


def read(tmp_path: Path, text: bytes) -> JournalText:
    (tmp_path / "journal.jsonl").write_bytes(text)
    return Journal(tmp_path / "journal.jsonl").read_whole()


def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    found = read(tmp_path, a_line() + a_line(trial=2)[:-20])
    assert [record.trial for record in found.records] == [1] and found.torn and not found.unreadable


def test_lines_of_a_newer_vtune_are_counted_apart(tmp_path: Path) -> None:
    newer = a_line(trial=2, schema=SCHEMA + 1, status="invented_later")
    found = read(tmp_path, a_line() + newer + b"no json\n\n[1]\n")
    assert (len(found.records), found.unreadable, found.newer, found.torn) == (1, 3, 1, False)


def test_a_newer_line_that_can_be_understood_is_read(tmp_path: Path) -> None:
    assert len(read(tmp_path, a_line(schema=SCHEMA + 1, invented_later=1, bottleneck="network")).records) == 1


def test_a_record_of_an_older_vtune_is_read_with_its_gaps(tmp_path: Path) -> None:
    since = {"asked", "gpus", "cache", "stages", "processes", "vram_peak_bytes", "notes", "evidence"}
    old = {name: value for name, value in record_to_json(a_record(trial=1)).items() if name not in since}
    (record,) = read(tmp_path, json.dumps(old).encode() + b"\n").records
    assert record.asked is None and record.measurement.gpus == () and record.measurement.cache == "unknown"


@pytest.mark.parametrize(
    "changes",
    [{"samples_per_s": "=cmd()"}, {"samples_per_s": True}, {"settings": [1]}, {"settings": {"workers": [4]}},
     {"projected": {"run_s": "long"}}, {"projected": 3}, {"gpus": [{"index": "x", "uuid": "y"}]}, {"detail": 7},
     {"trial": "1"}, {"samples_per_s_ci95": [1]}, {"status": []}, {"ram_peak_bytes": 10**200},
     {"ram_peak_bytes": -1}, {"samples_per_s": -12.0}, {"samples_per_s_ci95": [-1.0, 20.0]},
     {"workers_rss_bytes": [5, -5]}, {"steps_measured": -3}, {"trial": -1}, {"projected": {"run_s": -9.0}},
     {"others_cores": -0.5},
     {"gpus": [{"index": 0, "uuid": "y", "vram_total_bytes": -1}]}],
)  # fmt: skip
def test_a_line_with_a_wrong_type_in_it_is_no_record(tmp_path: Path, changes: dict[str, object]) -> None:
    found = read(tmp_path, a_line(**changes) + a_line(trial=2))
    assert [record.trial for record in found.records] == [2] and found.unreadable == 1


def test_what_is_no_number_is_unknown(tmp_path: Path) -> None:
    text = a_line().replace(b'"samples_per_s": 12.31', b'"samples_per_s": NaN').replace(b"10400.0", b"Infinity")
    (record,) = read(tmp_path, text).records
    assert record.measurement.samples_per_s is None and record.measurement.projected.run_s is None


def test_of_two_lines_for_one_trial_the_later_holds_and_the_trial_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, a_line(reason="first") + a_line(trial=2) + a_line(reason="second") + a_line(reason="third"))
    assert [record.reason for record in found.records] == ["third", "the current settings"] and found.repeated == (1,)
    assert read(tmp_path, a_line() + a_line(trial=2)).repeated == ()


@pytest.mark.parametrize("between", [b"", b" ", b"\r"])
def test_records_on_one_line_are_told_apart(tmp_path: Path, between: bytes) -> None:
    joined = between.join(a_line(trial=n).rstrip() for n in (2, 3, 4))
    found = read(tmp_path, a_line() + joined + b"\n" + a_line(trial=5))
    assert [record.trial for record in found.records] == [1, 2, 3, 4, 5]
    assert (found.joined, found.lost, found.unreadable) == (1, 0, 0)


def test_of_records_run_together_what_is_torn_is_counted_as_lost(tmp_path: Path) -> None:
    text = a_line(trial=2)[:-30] + a_line(trial=3, note='{"schema": 1}').rstrip() + a_line(trial=4)
    found = read(tmp_path, text)
    assert [record.trial for record in found.records] == [3, 4]
    assert (found.joined, found.lost, found.unreadable) == (1, 1, 0)
    tail = read(tmp_path, a_line(trial=2)[40:].rstrip() + a_line(trial=3))
    assert ([record.trial for record in tail.records], tail.joined, tail.lost) == ([3], 1, 1)


def test_what_can_be_below_nothing_may_be(tmp_path: Path) -> None:
    settings = {"workers": 2, "lr_steps": -1}
    gpu = {"index": 0, "uuid": "y", "temperature_c_max": -5.0}
    (record,) = read(tmp_path, a_line(settings=settings, device_gap_s=-1e-6, gpus=[gpu])).records
    assert record.settings == settings and record.measurement.gpus[0].temperature_c_max == -5


def test_five_hundred_trials_are_read_within_a_second(tmp_path: Path) -> None:
    text = b"".join(a_line(trial=n) for n in range(500))
    started = time.process_time()
    assert len(read(tmp_path, text).records) == 500
    assert time.process_time() - started < 1


def test_records_as_vtune_makes_them_are_sound() -> None:
    assert is_sound(a_gpu_record(), TrialRecord) and is_sound(a_trial(1, None), TrialRecord)
    assert not is_sound(replace(a_record(), seconds="long"), TrialRecord)  # type: ignore[arg-type]


def test_a_study_is_found_by_its_name_or_as_the_one_used_last(tmp_path: Path) -> None:
    write_study(tmp_path, name="one")
    last = write_study(tmp_path, name="two")
    assert find_study(tmp_path, None) == last and find_study(tmp_path, "one").root.name == "one"
    assert study_names(tmp_path) == ["one", "two"]


def test_a_wrong_name_is_refused_with_the_studies_there_are(tmp_path: Path) -> None:
    write_study(tmp_path, name="quickstart")
    write_study(tmp_path, name="scrolls")
    with pytest.raises(UsageError, match="no study quikstart") as refused:
        find_study(tmp_path, "quikstart")
    assert "--study quickstart" in (refused.value.hint or "") and "scrolls" in (refused.value.hint or "")


@pytest.mark.parametrize("last", ["../outside", "gone", "", "a\0b", "x" * 5000])
def test_a_note_of_the_last_study_that_leads_nowhere_is_no_study(tmp_path: Path, last: str) -> None:
    write_study(tmp_path / "results", name="here")
    write_study(tmp_path, name="outside")
    (tmp_path / "results" / ".last-study").write_text(last)
    with pytest.raises(UsageError, match="used last") as refused:
        find_study(tmp_path / "results", None)
    assert "here" in (refused.value.hint or "")


def test_an_empty_and_a_missing_results_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no study"):
        find_study(tmp_path, None)
    with pytest.raises(UsageError, match="no folder"):
        find_study(tmp_path / "nowhere", None)
