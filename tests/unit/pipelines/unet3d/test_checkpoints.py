from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from vtune.pipelines.unet3d.checkpoints import (
    CheckpointError,
    expected_bytes,
    keep_epoch,
    prepare_folder,
    save_checkpoint,
)


class DiesWhilePickled:
    """What a full disk, a kill or a bug is to a checkpoint: the end in the middle of the file."""

    def __reduce__(self) -> str:
        raise OSError(28, "No space left on device")


def test_missing_folders_are_made(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "a" / "b", bytes_needed=1, replaces=True)
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_is_a_file_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot write checkpoints to .*b: Not a directory$"):
        prepare_folder(tmp_path / "a" / "b", bytes_needed=1, replaces=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_found_before_the_first_step(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CheckpointError, match="Permission denied"):
        prepare_folder(tmp_path, bytes_needed=1, replaces=True)


def test_too_little_room_is_found_before_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="MB are free, 1000000000000 MB needed"):
        prepare_folder(tmp_path, bytes_needed=10**18, replaces=True)


def test_room_is_asked_for_two_checkpoints_of_weights_and_two_moments() -> None:
    assert expected_bytes(nn.Linear(10, 10, bias=False)) == 2 * 3 * 100 * 4


def test_a_checkpoint_can_be_read_again_and_leaves_no_other_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last.pt", {"epoch": 3, "model": {"w": torch.ones(2)}})
    assert torch.load(tmp_path / "last.pt", weights_only=True)["epoch"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_a_checkpoint_that_fails_half_way_leaves_the_one_before_it(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last.pt", {"epoch": 1})
    with pytest.raises(CheckpointError, match=r"cannot write checkpoint .*last\.pt: No space left on device$"):
        save_checkpoint(tmp_path / "last.pt", {"big": torch.ones(1000), "odd": DiesWhilePickled()})
    assert torch.load(tmp_path / "last.pt", weights_only=True) == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_a_folder_that_vanished_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="No such file or directory$"):
        save_checkpoint(tmp_path / "gone" / "last.pt", {})


def test_room_is_asked_for_all_files_that_may_exist_at_once() -> None:
    layer = nn.Linear(10, 10, bias=False)
    assert expected_bytes(layer, kept_beside=3) == 5 * 3 * 100 * 4
    assert expected_bytes(layer, kept_beside=1, averaged=True) == 3 * 4 * 100 * 4


def test_room_that_our_own_checkpoints_take_is_free_for_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed on a disk that has become full: its files are replaced one by one."""
    (tmp_path / "last.pt").write_bytes(bytes(1000))
    (tmp_path / "best.pt").hardlink_to(tmp_path / "last.pt")
    (tmp_path / "epoch_0007.pt").write_bytes(bytes(500))
    (tmp_path / "mine.pt").write_bytes(bytes(9000))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**6, 10**6 - 100, 100))
    prepare_folder(tmp_path, bytes_needed=1600, replaces=True)
    with pytest.raises(CheckpointError, match="MB are free"):
        prepare_folder(tmp_path, bytes_needed=1601, replaces=True)
    with pytest.raises(CheckpointError, match="MB are free"):
        prepare_folder(tmp_path, bytes_needed=1600, replaces=False)


def test_only_the_newest_epochs_are_kept_and_a_later_runs_left_alone(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_bytes(b"now")
    for name in ("epoch_0001.pt", "epoch_0002.pt", "epoch_0009.pt", "epoch_mine.pt"):
        (tmp_path / name).write_bytes(b"then")
    keep_epoch(tmp_path / "last.pt", epoch=3, newest=2)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["epoch_0002.pt", "epoch_0003.pt", "epoch_0009.pt", "epoch_mine.pt", "last.pt"]
    assert (tmp_path / "epoch_0003.pt").read_bytes() == b"now"
