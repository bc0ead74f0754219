"""A libnvidia-ml.so.1 of our own, so that the real nvidia-ml-py is what is tested."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
GIB = 2**30


def uuid(gpu: int) -> str:
    """As torch names the fake's devices: without the prefix."""
    return f"00000000-0000-0000-0000-{gpu:012d}"


class FakeDriver:
    """Its devices stand in a file that a test may replace while they are watched."""

    def __init__(self, library: Path, state: Path) -> None:
        self._library, self._state = library, state
        self._values: dict[str, object] = {}
        self.set()

    def set(self, **values: object) -> None:
        """`gpu0__util=80` stands for "gpu0.util 80"; None takes a key away."""
        named = {key.replace("__", "."): value for key, value in values.items()}
        self._values = {k: v for k, v in {**self._values, **named}.items() if v is not None}
        beside = self._state.with_suffix(".new")
        beside.write_text("".join(f"{key} {value}\n" for key, value in self._values.items()))
        os.replace(beside, self._state)

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self._library.parent), "FAKE_NVML_STATE": str(self._state)}


def build(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build a driver's library with")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-Wl,-soname,libnvidia-ml.so.1",
         *flags, "-o", library, SOURCE],
        check=True, timeout=60,
    )  # fmt: skip
    return library
