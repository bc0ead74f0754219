"""A libnvidia-ml.so.1 of our own, whose devices stand in a text file: NVIDIA's real client is what asks it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
# Only ours has such a function.
OURS = "emulatedNvml"
GIB = 2**30


class NoCompiler(Exception):
    """There is none, or it could not make the library; the text says so."""


def uuid(gpu: int) -> str:
    """As torch names the fake's devices: without the prefix."""
    return f"00000000-0000-0000-0000-{gpu:012d}"


class FakeDriver:
    """Its devices stand in a file that may be replaced while they are watched."""

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
        raise NoCompiler("no C compiler (cc) to build the emulated device's driver with")
    library = folder / LIBRARY
    # Under another name first: two that build at once must not load each other's half.
    handle, beside = tempfile.mkstemp(dir=folder, prefix=".building-")
    os.close(handle)
    try:
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", f"-Wl,-soname,{LIBRARY}",
             *flags, "-o", beside, SOURCE],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if made.returncode:
            raise NoCompiler(f"{compiler} could not build the emulated device's driver:\n{made.stderr.strip()}")
        os.chmod(beside, 0o755)
        os.replace(beside, library)
    finally:
        Path(beside).unlink(missing_ok=True)
    return library


def cached() -> Path:
    """Built on first use, and anew when its source has changed."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vtune" / "emulated-driver"
    folder /= hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    library = folder / LIBRARY
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    return build(folder)


def real_driver() -> str | None:
    """Where NVIDIA's own driver is here, in words; None without one."""
    for sign in ("/dev/nvidiactl", "/proc/driver/nvidia/version"):
        if os.path.exists(sign):
            return sign
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    return None if hasattr(library, OURS) else LIBRARY
