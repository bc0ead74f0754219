from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vtune.config import written_folders as module
from vtune.config.written_folders import written_folders
from vtune.domain.experiment import Workload


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path


def folders(
    home: Path, *command: str, config: Mapping[str, Any] | None = None, protect: tuple[Path, ...] = ()
) -> set[str]:
    workload = Workload(command=("python", "train.py", *command), cwd=home / "project", config=config)
    return {str(folder.relative_to(home)) for folder in written_folders(workload, protect)}


def test_the_working_folder_is_enough_for_what_lies_in_it(home: Path) -> None:
    (home / "project" / "runs").mkdir()
    assert folders(home, "--out", "runs", "--log-dir", "logs/new") == {"project"}


@pytest.mark.parametrize("words", [("--out", "{}"), ("--save-path={}/best.pt",), ("--ckpt_file", "{}/a/b/last.pt")])
def test_a_flag_that_names_an_output_elsewhere_brings_its_folder(home: Path, words: tuple[str, ...]) -> None:
    (home / "runs").mkdir()
    assert folders(home, *(word.format(home / "runs") for word in words)) == {"project", "runs"}


def test_a_key_that_names_an_output_elsewhere_brings_its_folder_and_data_do_not(home: Path) -> None:
    (home / "runs").mkdir()
    (home / "volumes").mkdir()
    config = {"model": {"save_path": str(home / "runs" / "m.pt")}, "data": {"output": str(home / "volumes")}}
    assert folders(home, config=config) == {"project", "runs"}


def test_links_lead_to_the_folders_behind_them(home: Path) -> None:
    (home / "big").mkdir()
    (home / "other").mkdir()
    (home / "other" / "last.pt").touch()
    (home / "project" / "deep").mkdir()
    (home / "project" / "deep" / "checkpoints").symlink_to(home / "big")
    (home / "project" / "last.pt").symlink_to(home / "other" / "last.pt")
    (home / "project" / "broken").symlink_to(home / "nowhere" / "at-all")
    (home / "project" / "python").symlink_to("/usr/bin/env")
    assert folders(home) == {"project", "big", "other"}


def test_folders_that_the_user_names_are_added(home: Path) -> None:
    (home / "more").mkdir()
    assert folders(home, protect=(home / "more",)) == {"project", "more"}


def test_a_look_for_links_ends_in_a_folder_of_very_many_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 5)
    (home / "big").mkdir()
    for number in range(20):
        (home / "project" / f"{number:02}").mkdir()
    (home / "project" / "19" / "link").symlink_to(home / "big")
    assert folders(home) == {"project"}
    monkeypatch.setattr(module, "MOST_ENTRIES", 100)
    assert folders(home) == {"project", "big"}


def test_the_root_of_the_machine_is_nobodys_own(home: Path) -> None:
    workload = Workload(command=("python", "train.py", "--out", "/nowhere/at/all"), cwd=Path("/"))
    assert written_folders(workload) == ()


def test_a_working_folder_below_the_systems_own_is_protected_and_a_guessed_output_there_is_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "lib").mkdir()
    # As /usr/src/app of many images, and /run/media/me/disk.
    monkeypatch.setattr(module, "_SYSTEM", frozenset((home.parts[1],)))
    assert folders(home, "--out", str(home / "lib")) == {"project"}
    assert folders(home, protect=(home / "lib",)) == {"project", "lib"}


def test_an_output_file_that_exists_brings_its_folder_however_near_the_root(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "out").mkdir()
    (home / "out" / "last.pt").touch()
    monkeypatch.setattr(module, "_LEAST_PARTS", 99)
    assert folders(home, "--out", str(home / "out" / "last.pt")) == {"project", "out"}
    assert folders(home, "--out", str(home / "out" / "new.pt")) == {"project"}


def test_a_link_in_a_folder_behind_a_link_leads_on(home: Path) -> None:
    for name in ("a", "b", "c"):
        (home / name).mkdir()
    (home / "project" / "out").symlink_to(home / "a")
    (home / "a" / "more").symlink_to(home / "b")
    (home / "b" / "back").symlink_to(home / "a")
    (home / "b" / "last").symlink_to(home / "c")
    assert folders(home) == {"project", "a", "b", "c"}


def test_the_folder_of_a_script_elsewhere_is_covered(home: Path) -> None:
    (home / "code").mkdir()
    (home / "code" / "train.py").touch()
    workload = Workload(command=("python", "../code/train.py"), cwd=home / "project")
    assert {folder.name for folder in written_folders(workload)} == {"project", "code"}


@pytest.mark.parametrize("flag", ["--outputDir", "--logdir", "--model.savedir"])
def test_names_of_outputs_are_known_in_each_spelling(home: Path, flag: str) -> None:
    (home / "runs").mkdir()
    assert folders(home, flag, str(home / "runs")) == {"project", "runs"}


def test_the_writable_folders_of_a_working_folder_that_is_not_are_covered(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "project" / "code" / "ck").mkdir(parents=True)
    (home / "project" / "out").mkdir()
    closed = {str(home / "project"), str(home / "project" / "code")}
    monkeypatch.setattr(module.os, "access", lambda path, mode: str(path) not in closed)
    assert folders(home) == {"project/out", "project/code/ck"}
