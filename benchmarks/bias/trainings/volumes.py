"""Random crops from a volume in a memory-mapped file, and a small 3D conv net."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

# 64 MiB of 16-bit voxels.
SIDE, CROP = 320, 24


def written(path: Path, seed: int) -> Path:
    dice = np.random.default_rng(seed)
    volume = np.lib.format.open_memmap(path, mode="w+", dtype=np.int16, shape=(SIDE, SIDE, SIDE))
    for layer in range(SIDE):
        volume[layer] = dice.integers(0, 4096, (SIDE, SIDE), dtype=np.int16)
    volume.flush()
    return path


class Crops(Dataset):
    def __init__(self, path: Path, seed: int) -> None:
        self.volume, self.seed = np.load(path, mmap_mode="r"), seed

    def __len__(self) -> int:
        return 200_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        z, y, x = np.random.default_rng((self.seed, index)).integers(0, SIDE - CROP, 3)
        crop = self.volume[z : z + CROP, y : y + CROP, x : x + CROP].astype(np.float32) / 4096
        return torch.from_numpy(crop)[None], torch.from_numpy((crop > 0.5).astype(np.float32))[None]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=8)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        crops = Crops(written(Path(folder, "volume.npy"), asked.seed), asked.seed)
        loader = DataLoader(
            crops, batch_size=2, shuffle=True, num_workers=asked.workers, prefetch_factor=asked.prefetch
        )
        width = asked.width
        model = nn.Sequential(
            nn.Conv3d(1, width, 3, padding=1), nn.InstanceNorm3d(width), nn.LeakyReLU(),
            nn.Conv3d(width, width, 3, padding=1), nn.InstanceNorm3d(width), nn.LeakyReLU(), nn.Conv3d(width, 1, 1),
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.99, nesterov=True)
        criterion = nn.BCEWithLogitsLoss()
        pace = Pace(asked.seconds)
        for crop, mask in loader:
            optimizer.zero_grad()
            criterion(model(crop), mask).backward()
            optimizer.step()
            if pace.is_over(len(crop)):
                break


if __name__ == "__main__":
    main()
