"""Files that a process wrote are told once each, and no more of them than anybody reads."""

from __future__ import annotations

import json
from pathlib import Path

from vtune.journal.file_facts import NotKept, files_not_kept, written_elsewhere
from vtune.journal.paths import TrialPaths


def lines(trial: Path) -> list[dict]:
    return [json.loads(line) for path in trial.glob("files-*.jsonl") for line in path.read_text().splitlines()]


def test_a_file_is_told_once_as_it_was_before(tmp_path: Path):
    from _vtune_hooks.told_files import ToldFiles

    path = tmp_path / "a.csv"
    told = ToldFiles(str(tmp_path))
    told.before_writing(str(path))
    path.write_text("new")
    told.before_writing(str(path))
    assert [(line["fact"], line["path"], line["before"]) for line in lines(tmp_path)] == [("touched", str(path), None)]


def test_the_list_says_that_it_is_cut(tmp_path: Path, monkeypatch):
    from _vtune_hooks import told_files

    monkeypatch.setattr(told_files, "MOST", 5)
    (tmp_path / "out").mkdir()
    told = told_files.ToldFiles(str(tmp_path))
    for number in range(9):
        told.before_writing(str(tmp_path / "out" / str(number)))
        (tmp_path / "out" / str(number)).write_text("")
    assert [line["fact"] for line in lines(tmp_path)] == ["touched"] * 5 + ["more"]
    written = written_elsewhere(TrialPaths(tmp_path))
    assert (len(written.new), written.is_cut) == (5, True)


def test_a_full_disk_disturbs_nobody(tmp_path: Path):
    from _vtune_hooks.told_files import ToldFiles

    ToldFiles(str(tmp_path / "gone")).before_writing(str(tmp_path / "a.csv"))


def test_the_first_process_has_seen_a_file_as_it_was_and_torn_lines_are_left_out(tmp_path: Path):
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")

    def line(t: float, name: str, before: object) -> str:
        return json.dumps({"t": t, "fact": "touched", "path": str(tmp_path / name), "before": before}) + "\n"

    status = (tmp_path / "b").stat()
    same = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode]
    (tmp_path / "files-1.jsonl").write_text(line(2.0, "a", [1, 1, 1, 1]) + line(3.0, "b", same) + '{"t": 4.0, "fa')
    (tmp_path / "files-2.jsonl").write_text(line(1.0, "a", None))
    written = written_elsewhere(TrialPaths(tmp_path))
    assert (written.new, written.changed, written.removed) == ((str(tmp_path / "a"),), (), ())


def test_what_was_refused_is_told_with_the_name_of_its_error(tmp_path: Path):
    from _vtune_hooks.told_files import ToldFiles

    for _ in range(2):
        ToldFiles(str(tmp_path)).tell("not_kept", path="/a/last.pt", errno=28, reason="full")
    assert files_not_kept(TrialPaths(tmp_path)) == (NotKept(path="/a/last.pt", error="ENOSPC", reason="full"),)
