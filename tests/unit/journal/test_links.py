"""Links that somebody planted in a study's folder: nothing is written through them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.made_up import MACHINE
from support.studies import a_report, a_trial, write_study
from vtune.domain.launch import LaunchEvent
from vtune.errors import UsageError
from vtune.execution.locks import Locks
from vtune.files import write_atomically
from vtune.journal.journal import Journal
from vtune.journal.launch_files import append_event
from vtune.journal.links import link_in
from vtune.journal.paths import LaunchPaths, StudyPaths
from vtune.journal.study import open_study
from vtune.reporting.report_files import write_report_files

FILES = (".lock", "journal.jsonl", "report.md", "launches/.lock", "launches/.0002.log", "launches/0001/events.jsonl")
FOLDERS = ("trials", "trials/0007", "scout", "launches", "launches/0001", "launches/0001/attempts")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """What must stay as it is: a file and a folder outside of the study."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / ".bashrc").write_text("alias ll='ls -l'\n")
    return folder


def is_whole(elsewhere: Path) -> bool:
    [file] = elsewhere.iterdir()
    return file.read_text() == "alias ll='ls -l'\n"


def plant(link: Path, target: Path) -> Path:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return link


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_a_study_with_a_link_in_it_is_not_opened(tmp_path: Path, elsewhere: Path, name: str) -> None:
    target = elsewhere / ".bashrc" if name in FILES else elsewhere
    link = plant(tmp_path / "results" / "s" / name, target)
    with pytest.raises(UsageError, match="is a link to") as caught, open_study(tmp_path / "results", "s", MACHINE):
        pass
    assert str(link) in caught.value.message and caught.value.hint
    assert is_whole(elsewhere)


def test_a_study_that_is_a_link_itself_is_not_opened_and_gets_no_report(tmp_path: Path, elsewhere: Path) -> None:
    link = plant(tmp_path / "results" / "s", elsewhere)
    with pytest.raises(UsageError), open_study(tmp_path / "results", "s", MACHINE):
        pass
    report = a_report(a_trial(1, 20.0))
    object.__setattr__(report, "folder", link)
    written = write_report_files(report, ("md", "csv"))
    assert written.paths == () and len(written.refused) == 1
    assert is_whole(elsewhere)


def test_links_that_a_training_made_in_its_own_folder_are_none_of_ours(tmp_path: Path, elsewhere: Path) -> None:
    study = write_study(tmp_path / "results", a_trial(1, 20.0))
    plant(study.trial(1).root / "output" / "latest", elsewhere)
    plant(study.trial(1).root / "wandb", elsewhere)
    assert link_in(StudyPaths(study.root)) is None


def test_no_write_follows_a_link_that_came_later(tmp_path: Path, elsewhere: Path) -> None:
    link = plant(tmp_path / "link", elsewhere / ".bashrc")
    with pytest.raises(OSError):
        Journal(link).append(a_trial(1, 20.0))
    locks = Locks([str(link)])
    assert locks.take() is not None and not locks.held_elsewhere
    launch = LaunchPaths(tmp_path / "launch")
    plant(launch.events, elsewhere / ".bashrc")
    append_event(launch, LaunchEvent(at=0.0, kind="ended", text="x"))
    assert is_whole(elsewhere)
    write_atomically(link, "new")
    assert link.read_text() == "new" and not link.is_symlink() and is_whole(elsewhere)
