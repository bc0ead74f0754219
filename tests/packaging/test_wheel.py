"""What a user gets: the files in the archives, and a wheel that works alone in a bare environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from vtune.version import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PACKAGE_DATA = {".py", ".yaml", ".typed"}


def test_the_wheel_holds_the_package_with_everything_it_injects_and_nothing_else(wheel: Path, root: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if not name.startswith(f"vtune-{VERSION}.dist-info/")}
    expected = {
        str(path.relative_to(root))
        for path in (root / "vtune").rglob("*")
        if path.is_file() and path.suffix in PACKAGE_DATA and "__pycache__" not in path.parts
    }
    assert ours == expected
    assert {"vtune/py.typed", "vtune/worker/inject/sitecustomize.py"} <= ours
    assert f"vtune-{VERSION}.dist-info/licenses/LICENSE" in names


def test_the_wheels_metadata_says_what_the_project_says(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    said = Parser().parsestr(archive.read(f"vtune-{VERSION}.dist-info/METADATA").decode())
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("vtune", VERSION, "Apache-2.0")
    needs = said.get_all("Requires-Dist", [])
    assert [need for need in needs if need.startswith("torch")] == ["torch>=2.4"]
    entry = archive.read(f"vtune-{VERSION}.dist-info/entry_points.txt").decode()
    assert "vtune = vtune.__main__:main" in entry


def test_the_source_archive_holds_the_project_and_no_leftovers(dists: Path) -> None:
    (path,) = dists.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames()]
    tops = {name.split("/")[0] for name in names}
    assert {"vtune", "tests", "configs", "docs", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"} <= tops
    assert [name for name in names if name.startswith("results/")] == ["results/README.md"]
    assert [name for name in names if name.endswith((".pyc", ".bin", ".log")) or "__pycache__" in name] == []


def test_the_wheel_alone_in_a_bare_environment_runs_a_probe(
    wheel: Path, new_environment: Callable[..., Path], training: Path, tmp_path: Path
) -> None:
    python = new_environment(Path(sys.executable), [str(wheel)])
    vtune = python.parent / "vtune"
    assert subprocess.check_output([vtune, "--version"], text=True, cwd=tmp_path).split()[-1] == VERSION

    ran = subprocess.run(
        [vtune, "probe", "--json", "--results", tmp_path / "results", "--", python, training],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    trial = json.loads(ran.stdout)["trial"]
    assert trial["status"] == "completed"
    assert trial["samples_per_s"] > 0
    assert trial["gpus"] == []
    assert len(trial["workers_rss_bytes"]) == 1


def test_installing_the_wheel_asks_for_no_other_torch(wheel: Path, outside: dict[str, str]) -> None:
    """Where a torch of at least the lower bound is installed, pip plans to leave it alone."""
    pytest.importorskip("torch")
    plan = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", str(wheel)]
    planned = json.loads(subprocess.check_output(plan, env=outside, text=True, stderr=subprocess.DEVNULL))
    names = {item["metadata"]["name"].lower() for item in planned["install"]}
    assert "torch" not in names
    assert not [name for name in names if name.startswith("nvidia-") and name != "nvidia-ml-py"]
