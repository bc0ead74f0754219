import json
import os
from pathlib import Path

import pytest

from vtune.domain.experiment import PlannedRun
from vtune.domain.record import Measurement
from vtune.execution.written import disk_note, files_below, list_elsewhere, trouble_notes, written_notes
from vtune.journal.paths import TrialPaths


def test_each_kind_of_change_is_one_line_and_a_long_one_is_shortened(tmp_path: Path) -> None:
    folder = TrialPaths(tmp_path)
    new = [f"/home/a/ct/runs/{number:02}.pt" for number in range(20)]
    written = {"changed": ["/home/a/ct/last.pt", "/data/out/best.pt"], "new": new, "removed": []}
    folder.written.write_text(json.dumps(written))
    changed, new_ones = written_notes(folder, Path("/home/a/ct"))
    assert changed.endswith(": /data/out/best.pt, last.pt")
    assert ": runs/00.pt, " in new_ones and new_ones.endswith(" and 12 more")


def test_a_trial_without_a_list_or_with_a_broken_one_has_no_notes(tmp_path: Path) -> None:
    folder = TrialPaths(tmp_path)
    assert written_notes(folder, tmp_path) == []
    folder.written.write_text("{")
    assert written_notes(folder, tmp_path) == []


def test_vtunes_own_results_are_not_the_trainings(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "journal.jsonl").write_text("{}")
    assert files_below(tmp_path, but=tmp_path / "results") == {}


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


@pytest.mark.parametrize(("by", "is_asked"), [("none", True), ("overlay", False), ("inside", False)])
def test_changes_that_were_allowed_are_named_so_and_the_studys_own_are_left_out(
    tmp_path: Path, by: str, is_asked: bool
) -> None:
    study = tmp_path / "results" / "demo"
    folder = TrialPaths(study / "trials" / "0001")
    folder.root.mkdir(parents=True)
    folder.protection.write_text(json.dumps({"by": by, "folders": [], "open": []}))
    (study / "compile-cache").mkdir()
    for path in (tmp_path / "last.pt", study / "compile-cache" / "a.so"):
        path.touch()
    paths = (study / "compile-cache", study / "compile-cache" / "a.so", tmp_path / "last.pt")
    lines = [json.dumps({"t": 1.0, "fact": "touched", "path": str(path), "before": None}) for path in paths]
    (folder.root / "files-7.jsonl").write_text("\n".join(lines))
    (note,) = list_elsewhere(folder, study)
    assert ("--allow-writes" in note) is is_asked and ("protected" in note) is not is_asked
    assert json.loads(folder.written.read_text())["outside"]["new"] == [str(tmp_path / "last.pt")]


def facts(folder: TrialPaths, *told: dict[str, object]) -> None:
    lines = [json.dumps({"t": float(number), **fact}) for number, fact in enumerate(told)]
    (folder.root / "files-7.jsonl").write_text("\n".join(lines) + "\n")


def test_a_file_that_was_not_put_back_is_told_with_the_place_of_its_old_state(tmp_path: Path) -> None:
    folder = TrialPaths(tmp_path)
    assert trouble_notes(folder) == []
    folder.not_restored.write_text(json.dumps({"/ct/last.pt": "read-only", "/ct/b.pt": "no space"}))
    first, second = trouble_notes(folder)
    assert "/ct/last.pt (read-only)" in first and str(tmp_path / "kept") in first
    assert "/ct/b.pt (no space)" in second


def test_of_files_that_could_not_be_kept_the_first_is_told(tmp_path: Path) -> None:
    folder = TrialPaths(tmp_path)
    refused = {"fact": "not_kept", "errno": 28, "reason": "no room"}
    facts(folder, {**refused, "path": "/ct/last.pt"}, {**refused, "path": "/ct/best.pt"})
    (note,) = trouble_notes(folder)
    assert "/ct/last.pt" in note and "(no room)" in note and "best.pt" not in note


def test_changes_outside_the_protected_folders_are_told_and_join_the_list(tmp_path: Path) -> None:
    trial, elsewhere = TrialPaths(tmp_path / "trial"), tmp_path / "elsewhere"
    trial.root.mkdir()
    elsewhere.mkdir()
    assert list_elsewhere(trial, tmp_path / "results") == [] and not trial.written.exists()
    new, changed, removed, same = (str(elsewhere / name) for name in ("new", "changed", "removed", "same"))
    for path in (new, changed, same):
        Path(path).touch()
    there = os.lstat(same)
    left = [there.st_ino, there.st_size, there.st_mtime_ns, there.st_mode]
    trial.written.write_text(json.dumps({"changed": ["/ct/last.pt"], "new": [], "removed": []}))
    befores = {new: None, changed: [1, 2, 3, 4], removed: [1, 2, 3, 4], same: left}
    facts(trial, *({"fact": "touched", "path": path, "before": before} for path, before in befores.items()))
    notes = list_elsewhere(trial, tmp_path / "results")
    assert [note.rpartition(": ")[2] for note in notes] == [changed, removed, new]
    listed = json.loads(trial.written.read_text())
    assert listed["changed"] == ["/ct/last.pt"]
    assert listed["outside"] == {"changed": [changed], "new": [new], "removed": [removed], "is_cut": False}


def test_a_list_of_changes_elsewhere_that_was_cut_says_so(tmp_path: Path) -> None:
    folder = TrialPaths(tmp_path)
    facts(folder, {"fact": "touched", "path": str(tmp_path / "gone"), "before": [1, 2, 3, 4]}, {"fact": "more"})
    (note,) = list_elsewhere(folder, tmp_path / "results")
    assert "more than vtune lists" in note
    assert json.loads(folder.written.read_text())["outside"]["is_cut"] is True
