"""What a loader worker holds of volumes larger than its share of the machine."""

from __future__ import annotations

import math
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import DataLoader

from vtune.pipelines.unet3d.data.patches import EpochWindow, ScrollPatches
from vtune.pipelines.unet3d.data.records import checked_records
from vtune.pipelines.unet3d.settings import AugmentationSettings, DataSettings

WORKERS = 4
SIZE = (1024, 1024, 2048)
LIMIT_BYTES = 300 * 10**6


def sparse_npy(path: Path) -> None:
    """2 GB by its header and to every reader, nothing on the disk."""
    path.parent.mkdir()
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": SIZE}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        file.truncate(start + math.prod(SIZE))
        # Some papyrus, or the labels' chunks have nothing to look for.
        for z in range(0, SIZE[0], 32):
            file.seek(start + z * SIZE[1] * SIZE[2] + (z * 7919 * SIZE[2]) % (SIZE[1] * SIZE[2]))
            file.write(b"\1" * SIZE[2])


def anonymous_bytes(pid: int) -> int:
    """Memory that is this process's own: not a page of a file, which the kernel may drop."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    fields = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    return 1024 * int(fields["Anonymous"])


@pytest.mark.slow
def test_four_workers_on_two_gigabytes_keep_under_300_mb_each(tmp_path: Path) -> None:
    sparse_npy(tmp_path / "images" / "scan.npy")
    sparse_npy(tmp_path / "labels" / "scan.npy")
    # The big job's patches: 72 × 136 × 136.
    data = DataSettings(images=str(tmp_path / "images"), labels=str(tmp_path / "labels"), foreground_probability=0.5)
    records, _ = checked_records(data)
    everything = AugmentationSettings(spatial_probability=1.0, intensity_probability=1.0)
    loader = DataLoader(
        ScrollPatches(records, data, everything),
        sampler=EpochWindow(16, batch=1),
        num_workers=WORKERS,
        prefetch_factor=2,
        multiprocessing_context="spawn",
    )
    peaks: dict[int, int] = {}
    for _ in loader:
        for worker in multiprocessing.active_children():
            assert worker.pid is not None
            peaks[worker.pid] = max(peaks.get(worker.pid, 0), anonymous_bytes(worker.pid))
    shown = sorted(round(peak / 1e6) for peak in peaks.values())
    print(f"anonymous MB of each worker: {shown}")
    assert len(peaks) == WORKERS
    assert max(peaks.values()) < LIMIT_BYTES, shown
