"""Wheels, bare environments and the other Pythons of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# A plain training that steps often enough to be measured and is over by itself in a few seconds.
TRAINING = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 1600

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((4,), float(index))


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for batch in DataLoader(Slow(), batch_size=4, num_workers=1):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""


@pytest.fixture
def training(tmp_path: Path) -> Path:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    return script


@pytest.fixture(scope="session")
def dists(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it, so that the sdist is shown to be whole."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(root)]
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(dists: Path) -> Path:
    (found,) = dists.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def interpreter(outside: dict[str, str]) -> Callable[[str], Path]:
    """`interpreter("3.12")`: a working CPython of that version, or a skip that says that there is none."""

    def find(version: str) -> Path:
        for candidate in _candidates(version, outside):
            says = 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])'
            try:
                ran = subprocess.run([candidate, "-c", says], capture_output=True, text=True, timeout=30)
            except OSError:
                continue
            # A version manager's shim exists for versions that are not switched on, and fails when run.
            if ran.returncode == 0 and ran.stdout.strip() == version:
                return Path(candidate)
        pytest.skip(f"no Python {version} with venv on this machine")

    return find


@pytest.fixture(scope="session")
def new_environment(
    root: Path, tmp_path_factory: pytest.TempPathFactory, outside: dict[str, str]
) -> Callable[..., Path]:
    """A new environment's python; `install` is what pip gets, under the project's constraints."""

    def make(base: Path, *installs: list[str], constraints: Path = root / "constraints.txt") -> Path:
        folder = tmp_path_factory.mktemp("environment")
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
        python = folder / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
        for arguments in installs:
            words = [*pip, "-c", str(constraints), *arguments]
            ran = subprocess.run(words, env=outside, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
        return python

    return make


@pytest.fixture(scope="session")
def all_but_torch(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement for requirement in project["dependencies"] if not requirement.startswith("torch")]


def _candidates(version: str, outside: dict[str, str]) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    managed = Path(outside.get("PYENV_ROOT") or Path(outside.get("HOME", "/")) / ".pyenv") / "versions"
    yield from (str(path) for path in sorted(managed.glob(f"{version}.*/bin/python{version}"), reverse=True))
