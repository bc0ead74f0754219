"""The proof that a trial is this account's own: kept apart from the study, believed only where nobody else writes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.execution.ownership import forget, proof_of, record

TOKEN = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Those of this test alone, best first. The last one, in /tmp, is shared with the machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    (tmp_path / "runtime").mkdir()
    return [tmp_path / "state" / "vtune" / "trials", tmp_path / "runtime" / "vtune-trials"]


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "s" / "trials" / "0001"
    folder.mkdir(parents=True)
    return folder


def test_a_recorded_trial_is_proven_until_it_is_forgotten(trial: Path, places: list[Path]) -> None:
    assert proof_of(TOKEN, trial) is None
    assert record(TOKEN, {"folder": str(trial), "tmpdir": "/tmp/vt-1"})
    assert record(TOKEN, {"folder": str(trial), "tmpdir": "/tmp/vt-2"})
    assert proof_of(TOKEN, trial) == {"token": TOKEN, "folder": str(trial), "tmpdir": "/tmp/vt-2"}
    assert [path.name for path in places[0].iterdir()] == [f"{TOKEN}.json"]
    forget(TOKEN)
    assert proof_of(TOKEN, trial) is None and not list(places[0].iterdir())


def test_nobody_else_may_read_or_write_it(trial: Path, places: list[Path]) -> None:
    before = os.umask(0)
    try:
        record(TOKEN, {"folder": str(trial)})
    finally:
        os.umask(before)
    assert places[0].stat().st_mode & 0o777 == 0o700
    assert (places[0] / f"{TOKEN}.json").stat().st_mode & 0o777 == 0o600


def test_a_copied_or_moved_folder_is_not_proven_and_a_path_through_a_link_is(trial: Path, tmp_path: Path) -> None:
    record(TOKEN, {"folder": str(trial)})
    copied = tmp_path / "copied"
    copied.mkdir()
    assert proof_of(TOKEN, copied) is None
    (tmp_path / "link").symlink_to(tmp_path / "results")
    assert proof_of(TOKEN, tmp_path / "link" / "s" / "trials" / "0001") is not None


@pytest.mark.parametrize("token", [None, 5, "", "../../../../etc/passwd", TOKEN.upper(), TOKEN + "0", [TOKEN]])
def test_no_token_of_a_study_file_leads_out_of_the_folder(trial: Path, token: object) -> None:
    assert proof_of(token, trial) is None
    forget(token)


def _open_to_all(place: Path) -> None:
    place.mkdir(parents=True)
    place.chmod(0o755)


def _a_link(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.symlink_to(elsewhere)


def _a_file(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


@pytest.mark.parametrize("spoil", [_open_to_all, _a_link, _a_file])
def test_a_place_that_is_not_private_is_passed_over(
    trial: Path, places: list[Path], spoil: Callable[[Path], None]
) -> None:
    spoil(places[0])
    assert record(TOKEN, {"folder": str(trial)})
    assert (places[1] / f"{TOKEN}.json").is_file()
    assert proof_of(TOKEN, trial) is not None


def test_where_no_place_is_private_nothing_is_proven(
    trial: Path, places: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtune.execution.ownership._places", lambda: list(map(str, places)))
    for place in places:
        _open_to_all(place)
        planted = place / f"{TOKEN}.json"
        planted.write_text(json.dumps({"token": TOKEN, "folder": str(trial)}))
        planted.chmod(0o600)
    assert not record(TOKEN, {"folder": str(trial)})
    assert proof_of(TOKEN, trial) is None


def test_a_record_that_others_may_write_to_proves_nothing(trial: Path, places: list[Path]) -> None:
    record(TOKEN, {"folder": str(trial)})
    (places[0] / f"{TOKEN}.json").chmod(0o620)
    assert proof_of(TOKEN, trial) is None


def test_the_last_record_counts_where_the_first_place_refused_for_a_while(trial: Path, places: list[Path]) -> None:
    record(TOKEN, {"folder": str(trial), "group": None})
    places[0].chmod(0o500 | 0o055)
    record(TOKEN, {"folder": str(trial), "group": "/sys/fs/cgroup/vtune-1"})
    places[0].chmod(0o700)
    proof = proof_of(TOKEN, trial)
    assert proof is not None and proof["group"] == "/sys/fs/cgroup/vtune-1"
    forget(TOKEN)
    assert proof_of(TOKEN, trial) is None
