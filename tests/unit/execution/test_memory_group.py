"""What is written to and read from a control group's files; groups of the kernel's own are in tests/integration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtune.execution.memory_group import V1, V2, MemoryGroup, remove_group

FILES = {
    V1: {
        "memory.limit_in_bytes": "9223372036854771712",
        "memory.memsw.limit_in_bytes": "9223372036854771712",
        "memory.stat": "cache 900\nrss 1\nshmem 1\ntotal_cache 900\ntotal_rss 4096\ntotal_shmem 8192\n",
        "memory.max_usage_in_bytes": "20480",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        "cgroup.procs": "",
    },
    V2: {
        "memory.max": "max",
        "memory.swap.max": "max",
        "memory.oom.group": "0",
        "memory.stat": "anon 4096\nfile 900\nshmem 8192\nanon_thp 7\n",
        "memory.peak": "20480",
        "memory.events": "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\noom_group_kill 0\n",
        "cgroup.procs": "",
    },
}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch):
    """Fills new folders as the kernel fills new groups, and lets go of them with their files."""
    lacks: set[str] = set()
    mkdir, rmdir = os.mkdir, os.rmdir

    def fill(path, *rest, **named):
        mkdir(path, *rest, **named)
        for name, text in FILES[V2 if "v2" in str(path) else V1].items():
            if name not in lacks:
                Path(path, name).write_text(text)

    def let_go(path, *rest, **named):
        for file in Path(path).iterdir():
            if file.is_file():
                file.unlink()
        rmdir(path, *rest, **named)

    monkeypatch.setattr(os, "mkdir", fill)
    monkeypatch.setattr(os, "rmdir", let_go)
    return lacks


@pytest.fixture(params=[V1, V2])
def group(request: pytest.FixtureRequest, tmp_path: Path, kernel: set[str]) -> MemoryGroup:
    parent = tmp_path / request.param.split()[1]
    Path(parent).mkdir()
    return MemoryGroup(request.param, str(parent), "abc")


def test_a_group_has_a_wall_and_no_swap_behind_it(group: MemoryGroup) -> None:
    assert group.make(123456)
    assert os.path.basename(group.path) == "vtune-abc"
    written = {name: Path(group.path, name).read_text() for name in FILES[group.kind]}
    if group.kind == V1:
        assert written["memory.limit_in_bytes"].startswith("123456")
        assert written["memory.memsw.limit_in_bytes"].startswith("123456")
    else:
        assert written["memory.max"].startswith("123456")
        assert written["memory.swap.max"].startswith("0")
        assert written["memory.oom.group"] == "1"


def test_anonymous_and_shared_memory_count_and_page_cache_does_not(group: MemoryGroup) -> None:
    group.make(None)
    assert group.used_bytes() == 4096 + 8192


def test_the_kernels_counts_are_told_at_the_end(group: MemoryGroup) -> None:
    group.make(2**30)
    assert group.end() == {
        "kind": group.kind,
        "limit_bytes": 2**30,
        "peak_bytes": 20480,
        "oom_kills": 1,
        "at_limit": False,
    }
    Path(group.path, "memory.peak" if group.kind == V2 else "memory.max_usage_in_bytes").write_text(str(2**30 - 4096))
    assert group.end()["at_limit"] is True
    assert group.remove()
    assert not os.path.exists(group.path)


@pytest.mark.parametrize("missing", ["limit", "memory.stat"])
def test_a_group_that_cannot_be_had_whole_is_not_left_behind(
    group: MemoryGroup, kernel: set[str], missing: str
) -> None:
    kernel.add(missing if missing != "limit" else "memory.limit_in_bytes" if group.kind == V1 else "memory.max")
    assert not group.make(123456)
    assert not os.path.exists(group.path)


def test_a_folder_that_turns_out_to_be_no_group_is_not_left_behind(tmp_path: Path) -> None:
    assert not MemoryGroup(V1, str(tmp_path), "abc").make(1)
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_not_ours_makes_no_group(tmp_path: Path) -> None:
    group = MemoryGroup(V1, str(tmp_path / "missing"), "abc")
    assert not group.make(1)


@pytest.mark.parametrize("name", ["somebodys", "vtune-but-no-group"])
def test_what_is_no_group_of_ours_is_not_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "inside").mkdir(parents=True)
    assert not remove_group(str(tmp_path / name))
    assert (tmp_path / name / "inside").is_dir()
