import os
from pathlib import Path

from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement
from vtune.execution.written import disk_note, files_below, written_notes


def test_new_and_changed_files_are_named_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "last.pt").write_text("old")
    (tmp_path / "data.npy").write_text("data")
    before = files_below(tmp_path, but=tmp_path / "results")
    (tmp_path / "out" / "last.pt").write_text("overwritten")
    (tmp_path / "out" / "best.pt").write_text("new")
    notes = written_notes(tmp_path, before, files_below(tmp_path, but=tmp_path / "results"))
    assert [note.rpartition(": ")[2] for note in notes] == ["out/last.pt", "out/best.pt"]
    assert notes[0].startswith("changed in") and notes[1].startswith("new in")


def test_vtunes_own_results_are_not_the_trainings(tmp_path: Path) -> None:
    before = files_below(tmp_path, but=tmp_path / "results")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "journal.jsonl").write_text("{}")
    assert written_notes(tmp_path, before, files_below(tmp_path, but=tmp_path / "results")) == []


def test_an_unreadable_or_vanished_folder_is_no_trouble(tmp_path: Path) -> None:
    os.symlink("nowhere", tmp_path / "broken")
    assert files_below(tmp_path / "gone", but=tmp_path) == {}
    assert "broken" in files_below(tmp_path, but=tmp_path / "results")


def test_a_run_whose_checkpoints_fill_the_disk_is_told_and_no_other(tmp_path: Path) -> None:
    leaves = Measurement(disk_bytes_per_epoch=2**50)
    (note,) = disk_note(leaves, PlannedRun(epochs=10), tmp_path)
    assert "in the run" in note and "full after 0 epochs" in note
    assert len(disk_note(leaves, PlannedRun(), tmp_path)) == 1
    assert disk_note(Measurement(disk_bytes_per_epoch=1), PlannedRun(epochs=10), tmp_path) == []
    assert disk_note(Measurement(), PlannedRun(epochs=10), tmp_path) == []
