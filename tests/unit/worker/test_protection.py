"""Which paths a trial's protection covers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.protected import write_protection


def test_a_trial_without_the_file_is_not_protected(tmp_path: Path):
    from _vtune_hooks import protection

    assert protection.read(str(tmp_path)) is None


@pytest.mark.parametrize("name", ["work", "mit Leerzeichen", "größe", 'quo"te\\', "\U0001f600"])
def test_it_is_read_without_the_package_json(tmp_path: Path, name):
    from _vtune_hooks import json_text, protection

    work = tmp_path / name
    work.mkdir()
    write_protection(tmp_path / "trial", work, disk_bytes=12)
    known = protection.read(str(tmp_path / "trial"))
    assert (known.by, known.folders, known.disk_bytes) == ("inside", [str(work)], 12)
    text = (tmp_path / "trial" / "protection.json").read_text()
    assert json_text.parsed(text) == json.loads(text)
    assert json.loads(json_text.text_of(json.loads(text))) == json.loads(text)


def test_a_path_is_open_protected_or_elsewhere(tmp_path: Path, monkeypatch):
    from _vtune_hooks import protection

    work = tmp_path / "work"
    trial = work / "results" / "trials" / "0001"
    cache = work / "cache"
    cache.mkdir(parents=True)
    (tmp_path / "vt-12ab").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "vt-12ab"))
    write_protection(trial, work, open_=(cache,))
    known = protection.read(str(trial))
    assert known.folder_of(f"{work}/last.pt") == known.folder_of(str(work)) == str(work)
    assert known.folder_of(f"{work}-2/last.pt") is None
    for path in (
        f"{trial}/stdout.log",
        f"{cache}/a/b",
        str(cache),
        f"{tmp_path}/vt-12ab/x",
        "/dev/null",
        "/proc/self/x",
    ):
        assert known.is_open(path), path
    for path in (f"{work}/last.pt", f"{cache}-2/a", f"{tmp_path}/x", "/development/x"):
        assert not known.is_open(path), path


def test_a_temporary_folder_of_the_users_is_not_the_trials(tmp_path: Path, monkeypatch):
    from _vtune_hooks import protection

    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    write_protection(tmp_path / "trial")
    assert not protection.read(str(tmp_path / "trial")).is_open(f"{tmp_path}/tmp/x")
