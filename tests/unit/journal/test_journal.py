import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.records import a_gpu_record, a_record
from vtune.domain.advice import Advice
from vtune.domain.compared import Beat
from vtune.domain.machine import Machine
from vtune.domain.record import TrainingCost
from vtune.errors import StorageError, UsageError
from vtune.journal.journal import Journal
from vtune.journal.records import record_from_json, record_to_json
from vtune.journal.study import open_study

MACHINE = Machine(host="a", kernel="6", cpu_model="x", cores=2.0, ram_bytes=2**30, shm_bytes=2**20)


def test_a_record_survives_the_way_to_disk_and_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(a_record(trial=1))
    journal.append(a_record(trial=2))
    assert journal.read() == [a_record(trial=1), a_record(trial=2)]


def test_what_the_instruments_told_survives_it_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(a_gpu_record())
    assert journal.read() == [a_gpu_record()]


def test_steps_for_which_a_training_stood_still_come_back_as_they_were(tmp_path: Path) -> None:
    record = a_record()
    cost = TrainingCost(batch_s=0.02, period_steps=75, period_extra_s=1.5, long_steps=(74, 149))
    kept = replace(record, measurement=replace(record.measurement, training_cost=cost))
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(kept)
    assert journal.read() == [kept]


def test_what_a_trial_was_ended_early_for_survives_and_older_journals_do_not_say_it(tmp_path: Path) -> None:
    beat = Beat(trial=3, ranked_by="samples_per_s_whole_run", samples_per_s=5.4, at_least=5.2, cache="warm")
    beaten = replace(a_record(trial=4), beaten=beat)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(beaten)
    assert journal.read() == [beaten]
    plain = record_to_json(beaten)
    del plain["beaten"]
    assert record_from_json(plain) == replace(beaten, beaten=None)


def test_advice_stands_in_json_as_lines_and_an_older_journal_does_not_say_which_settings_it_asks_for() -> None:
    advice = (Advice("try 4 workers", asks={"workers": 4, "crop": "[96, 96]"}), Advice("a faster disk"))
    record = a_record()
    plain = record_to_json(replace(record, diagnosis=replace(record.diagnosis, advice=advice)))
    assert plain["next"] == ["try 4 workers", "a faster disk"]
    assert plain["next_asks"] == [{"workers": 4, "crop": "[96, 96]"}, {}]
    assert record_from_json(json.loads(json.dumps(plain))).diagnosis.advice == advice
    del plain["next_asks"]
    assert record_from_json(plain).diagnosis.advice == (Advice("try 4 workers"), Advice("a faster disk"))


def test_the_json_has_every_field_of_the_contract_with_null_for_unknown() -> None:
    plain = record_to_json(replace(a_record(trial=7), measurement=type(a_record(trial=7).measurement)()))
    promised = {
        "trial", "origin", "settings", "reason", "status", "detail", "samples_per_s", "samples_per_s_ci95",
        "steps_measured", "seconds", "steady", "step_time_s", "data_wait_fraction", "compute_samples_per_s",
        "loader_samples_per_s", "first_batch_s", "epoch_restart_s", "samples_per_s_whole_run", "gpus",
        "vram_peak_bytes", "ram_peak_bytes", "ram_projected_bytes", "shm_peak_bytes", "workers_rss_bytes", "cache",
        "projected", "bottleneck", "effective_batch", "samples_per_epoch",
    }  # fmt: skip
    assert promised <= set(plain)
    assert plain["samples_per_s"] is None and plain["gpus"] == [] and plain["vram_peak_bytes"] is None
    assert plain["projected"] == {"epoch_s": None, "run_s": None, "cost": None, "epochs": None}


@pytest.mark.parametrize("keep", [1, 20, -2])
def test_a_torn_last_line_is_dropped_and_does_not_swallow_the_next(tmp_path: Path, keep: int) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(a_record(trial=1))
    whole = journal_bytes = (tmp_path / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(whole + journal_bytes[:keep])
    assert [r.trial for r in journal.read()] == [1]
    journal.append(a_record(trial=3))
    assert [r.trial for r in journal.read()] == [1, 3]


def test_a_newer_field_is_ignored_and_a_missing_one_is_unknown() -> None:
    plain = json.loads(json.dumps(record_to_json(a_gpu_record(trial=1))))
    plain["invented_later"] = plain["gpus"][0]["invented_later"] = plain["step_time_s"]["p5"] = 1
    del plain["shm_peak_bytes"]
    assert record_from_json(plain).measurement.shm_peak_bytes is None


def test_a_second_vtune_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        open_study(tmp_path, "s", MACHINE),
        pytest.raises(UsageError, match=f"pid {os.getpid()}") as refused,
        open_study(tmp_path, "s", MACHINE),
    ):
        pass
    assert "--wait" in (refused.value.hint or "")


def test_a_journal_of_another_machine_is_refused_with_what_differs(tmp_path: Path) -> None:
    with open_study(tmp_path, "s", MACHINE):
        pass
    larger = replace(MACHINE, cores=12.0)
    with pytest.raises(UsageError, match="cores was 2.0, is 12.0"), open_study(tmp_path, "s", larger):
        pass


def test_another_number_of_declared_cores_is_another_machine(tmp_path: Path) -> None:
    with open_study(tmp_path, "s", MACHINE):
        pass
    declared = replace(MACHINE, declared_cores=12)
    with pytest.raises(UsageError, match="declared_cores was None, is 12"), open_study(tmp_path, "s", declared):
        pass


def test_a_trial_number_is_never_used_twice_even_if_its_vtune_died(tmp_path: Path) -> None:
    with open_study(tmp_path, "s", MACHINE) as study:
        study.journal.append(a_record(trial=1))
        study.new_trial_folder(4)
        assert study.next_trial() == 5


def test_an_unwritable_results_folder_is_what_this_machine_cannot(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"), open_study(tmp_path / "file", "s", MACHINE):
        pass


def test_the_numbers_of_trials_are_read_without_their_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.numbers() == []
    said = replace(a_record(trial=12), detail='{"schema": 1, "trial": 99} said the training')
    for record in (a_record(trial=1), said):
        journal.append(record)
    with open(tmp_path / "journal.jsonl", "a") as file:
        file.write('{"schema" : 1,"trial":13, "torn')
    assert journal.numbers() == [1, 12, 13]


def test_numbers_that_are_none_are_unknown(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(a_record(trial=1))
    text = (tmp_path / "journal.jsonl").read_text()
    for word in ("NaN", "-Infinity", "1e999"):
        (tmp_path / "journal.jsonl").write_text(text.replace('"first_batch_s": 3.1', f'"first_batch_s": {word}'))
        (record,) = journal.read()
        assert record.measurement.first_batch_s is None
