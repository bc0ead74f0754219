from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtune.execution import shm


@pytest.mark.parametrize(
    "name",
    [
        "torch_4711_1234567_0",
        "__KMP_REGISTERED_LIB_4711_1000",
        "__KMP_REGISTERED_LIB_4711",
        "sem.loky-4711-x1y2",
        "pym-4711-abc",
        "joblib_memmapping_folder_4711_aa_bb",
    ],
)
def test_a_segment_named_after_a_process_of_ours_is_ours(name):
    assert shm.claim({name}, users=(), namesakes={4711}) == {name}
    assert shm.claim({name}, users=(), namesakes={471, 47110}) == set()


@pytest.mark.parametrize("name", ["psm_4711", "nccl-4711", "data_4711_0", "4711", "my_torch_4711_0"])
def test_a_number_alone_makes_no_segment_ours(name):
    assert shm.claim({name}, users=(), namesakes={4711}) == set()


def test_a_segment_is_its_users_and_is_not_removed_while_it_is_used():
    name = f"vtune test {os.urandom(6).hex()}"
    path = Path(shm.SHM) / name
    try:
        with open(path, "w"):
            assert shm.claim({name, "other"}, users=[os.getpid()], namesakes=()) == {name}
            assert shm.remove({name}) == ()
        assert shm.remove({name, "gone"}) == (name,)
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_a_folder_is_removed_whole():
    folder = Path(shm.SHM) / f"joblib_memmapping_folder_1_{os.urandom(6).hex()}"
    folder.mkdir()
    (folder / "array.pkl").touch()
    assert shm.remove({folder.name}) == (folder.name,)
    assert not folder.exists()


def test_what_another_program_holds_or_bears_its_number_is_not_told_as_left_by_the_trial() -> None:
    seen = shm.Segments()
    seen.pids_seen.add(os.getpid())
    unique = os.urandom(6).hex()
    names = (f"vtune-test-held-{unique}", f"torch_1_{unique}", f"torch_{os.getpid()}_{unique}")
    held, anothers, own = (Path(shm.SHM, name) for name in names)
    anothers.touch()
    own.touch()
    try:
        with open(held, "w"):
            assert {held.name, anothers.name, own.name}.intersection(seen.left()) == {own.name}
        assert held.name in seen.left()
    finally:
        for path in (held, anothers, own):
            path.unlink(missing_ok=True)


def test_what_appeared_and_is_nobodys_is_told_and_not_removed() -> None:
    seen = shm.Segments()
    path = Path(shm.SHM, f"vtune-test-left-{os.getpid()}")
    path.write_bytes(b"x")
    try:
        assert path.name in seen.left()
        seen.ours.add(path.name)
        assert path.name not in seen.left()
    finally:
        path.unlink()
