"""WebDataset over tar files that are made here, once: the package itself, which shares out its shards by worker."""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

SHARDS, OF_EACH = 8, 64
LOAD_S = 0.003


def web_dataset() -> Any:
    import webdataset

    folder = Path(tempfile.mkdtemp())
    write_shards(folder)
    shards = str(folder / f"{{000..{SHARDS - 1:03d}}}.tar")
    return webdataset.WebDataset(shards, shardshuffle=False, empty_check=False).decode().map(as_sample)


def write_shards(folder: Path) -> None:
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:03d}.tar", "w") as tar:
            for at in range(OF_EACH):
                # Keys begin anew in each shard, as they mostly do.
                _add(tar, f"{at:04d}.npy", _npy(shard * OF_EACH + at))
                _add(tar, f"{at:04d}.cls", str(at % 10).encode())


def as_sample(sample: dict[str, Any]) -> tuple[torch.Tensor, int]:
    time.sleep(LOAD_S)
    return torch.from_numpy(sample["npy"]), int(sample["cls"])


def _npy(number: int) -> bytes:
    text = io.BytesIO()
    np.save(text, np.random.Generator(np.random.PCG64(number)).random(64, dtype=np.float32))
    return text.getvalue()


def _add(tar: tarfile.TarFile, name: str, text: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text)
    tar.addfile(member, io.BytesIO(text))
