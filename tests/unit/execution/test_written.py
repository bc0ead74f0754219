import os
from pathlib import Path

from vtune.execution.written import files_below, written_notes


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
