"""A name is the file that the kernel would take it for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "folder-link").symlink_to("real")
    (tmp_path / "file-link").symlink_to(tmp_path / "folder-link" / "file")
    (tmp_path / "dangling").symlink_to("real/new")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path / "real")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "follow", "real"),
    [
        ("file", True, "real/file"),
        ("./deep/../file", True, "real/file"),
        ("../folder-link/file", False, "real/file"),
        ("../file-link", False, "file-link"),
        ("../file-link", True, "real/file"),
        ("../dangling", True, "real/new"),
        ("../folder-link/deep/", False, "real/deep"),
        ("..", False, ""),
        (b"file", True, "real/file"),
        (Path("file"), True, "real/file"),
        ("../loop", True, None),
        ("missing/file", True, None),
        ("file/below", True, None),
        ("", True, None),
        ("a\0b", True, None),
    ],
)
def test_links_are_followed_where_the_call_follows_them(top, name, follow, real):
    from _vtune_hooks.real_paths import real_path

    expected = None if real is None else os.path.join(top, real).rstrip("/")
    assert real_path(name, follow=follow) == expected


def test_a_name_counts_from_the_folder_that_was_opened(top):
    from _vtune_hooks.real_paths import in_any_open_folder, real_path

    descriptor = os.open(top / "real" / "deep", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert real_path("x", descriptor, follow=True) == str(top / "real" / "deep" / "x")
        assert real_path(str(top / "x"), descriptor, follow=True) == str(top / "x")
        assert real_path(descriptor, follow=True) == str(top / "real" / "deep")
        # Which one is not known: all that it may be.
        assert set(in_any_open_folder("x")) >= {str(top / "real" / "x"), str(top / "real" / "deep" / "x")}
    finally:
        os.close(descriptor)


def test_without_a_free_descriptor_it_is_found_all_the_same(top, monkeypatch):
    from _vtune_hooks import real_paths

    def none_left(*arguments, **named):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(real_paths, "_open", none_left)
    assert real_paths.real_path("../folder-link/file", follow=True) == str(top / "real" / "file")
