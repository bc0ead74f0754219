"""The emulated driver's library, or a skipped test where nothing can build it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulated.fake_nvml import NoCompiler, build


def built_driver(folder: Path, *flags: str) -> Path:
    try:
        return build(folder, *flags)
    except NoCompiler as error:
        pytest.skip(str(error))
