"""Which torch a Python has, by its files: nothing is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vtune.config.installed import package_folders, torch_version


def python_in(folder: Path) -> Path:
    path = folder / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    path.chmod(0o755)
    return path


def give_torch(packages: Path, version: str = "2.9.0+cu130") -> None:
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "version.py").write_text(
        f"from typing import Optional\n__all__ = ['__version__']\n__version__ = '{version}'\ndebug = False\n"
    )


def test_of_a_virtual_environment(tmp_path: Path) -> None:
    python = python_in(tmp_path / "venv")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /nowhere/bin\ninclude-system-site-packages = false\n")
    packages = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    assert package_folders(str(python)) == [packages] and torch_version([packages]) is None
    give_torch(packages)
    (tmp_path / "link").symlink_to(python)
    assert torch_version(package_folders(str(tmp_path / "link"))) == "2.9.0+cu130"
    assert not (tmp_path / "venv" / "started").exists()


def test_of_a_virtual_environment_that_sees_the_packages_below_it(tmp_path: Path) -> None:
    base = python_in(tmp_path / "base")
    base.rename(base.with_name("python3.12"))
    give_torch(tmp_path / "base" / "lib" / "python3.12" / "site-packages", "2.6.0")
    python = python_in(tmp_path / "venv")
    (tmp_path / "venv" / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    settings = tmp_path / "venv" / "pyvenv.cfg"
    settings.write_text(f"home = {base.parent}\nversion = 3.12.1\ninclude-system-site-packages = false\n")
    assert torch_version(package_folders(str(python))) is None
    settings.write_text(settings.read_text().replace("false", "true"))
    assert torch_version(package_folders(str(python))) == "2.6.0"


def test_of_a_python_without_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    python = python_in(tmp_path)
    real = python.rename(python.with_name("python3.11"))
    python.symlink_to(real.name)
    give_torch(tmp_path / "lib" / "python3.10" / "site-packages", "1.0")
    give_torch(tmp_path / "lib" / "python3.11" / "site-packages", "2.9.0")
    assert torch_version(package_folders(str(python))) == "2.9.0"
    give_torch(tmp_path / "home" / ".local" / "lib" / "python3.11" / "site-packages", "2.5.0")
    assert torch_version(package_folders(str(python))) == "2.5.0"


def test_of_what_is_no_python_nothing_is_known(tmp_path: Path) -> None:
    python = python_in(tmp_path)
    assert package_folders(str(python)) == [] == package_folders(str(tmp_path / "none"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "text", ["__version__ = 5", "__version__ = f()", "(((", "", "__version__ = '1'\n" + "#" * 2**20]
)
def test_a_version_file_that_says_nothing_is_no_version(tmp_path: Path, text: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text)
    assert torch_version([tmp_path]) is None


def test_a_fifo_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    os.mkfifo(tmp_path / "torch" / "version.py")
    assert torch_version([tmp_path]) is None


def test_the_python_of_these_tests_is_found_with_its_torch() -> None:
    torch = pytest.importorskip("torch")
    assert torch_version(package_folders(sys.executable)) == torch.__version__
