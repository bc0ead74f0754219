"""A small conv net on images that are read (a wait) and decoded (NumPy), with autocast to bfloat16 or without."""

import argparse
import time

import numpy as np
import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 64


class Images(Dataset):
    def __init__(self, read_ms: float, decodes: int, seed: int) -> None:
        self.read_s, self.decodes, self.seed = read_ms / 1e3, decodes, seed

    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.read_s:
            time.sleep(self.read_s)
        image = np.random.default_rng((self.seed, index)).random((3, SIZE, SIZE), dtype=np.float32)
        for _ in range(self.decodes):
            image = np.fft.irfft2(np.fft.rfft2(image) * 0.9, s=(SIZE, SIZE)).astype(np.float32)
        return torch.from_numpy((image - image.mean()) / image.std()), index % 10


def block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.ReLU())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--read-ms", type=float, default=0.0, help="a sample")
    parser.add_argument("--decodes", type=int, default=1, help="a sample")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    torch.set_num_threads(asked.threads)
    loader = DataLoader(
        Images(asked.read_ms, asked.decodes, asked.seed),
        batch_size=asked.batch_size,
        shuffle=True,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
        persistent_workers=asked.persistent,
    )
    width = asked.width
    model = nn.Sequential(
        block(3, width), block(width, 2 * width), block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pace = Pace(asked.seconds)
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=asked.amp):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if pace.is_over(len(images)):
            break


if __name__ == "__main__":
    main()
