"""NumPy in the workers: images are unpacked with zlib, or augmented (flips, noise, a blur); the model is light."""

import argparse
import zlib

import numpy as np
import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE, PACKED = 128, 64


class Augmented(Dataset):
    def __init__(self, *, packed: bool, blurs: int, seed: int) -> None:
        dice = np.random.default_rng(1)
        self.blurs, self.seed = blurs, seed
        # Few grey levels, so that there is something to unpack.
        images = dice.integers(0, 8, (PACKED, SIZE, SIZE), dtype=np.int64).astype(np.float64)
        self.packed = [zlib.compress(image.tobytes()) for image in images] if packed else None
        self.images = images

    def __len__(self) -> int:
        return 500_000

    def __getitem__(self, index: int) -> torch.Tensor:
        dice = np.random.default_rng((self.seed, index))
        if self.packed is None:
            image = self.images[index % PACKED]
        else:
            image = np.frombuffer(zlib.decompress(self.packed[index % PACKED])).reshape(SIZE, SIZE)
        image = image[:: dice.choice((-1, 1)), :: dice.choice((-1, 1))] + dice.normal(0.0, 0.1, (SIZE, SIZE))
        for _ in range(self.blurs):
            image = (image + np.roll(image, 1, 0) + np.roll(image, 1, 1) + np.sqrt(np.abs(image))) / 4
        return torch.from_numpy(np.ascontiguousarray(image[::4, ::4], dtype=np.float32))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--blurs", type=int, default=10)
    parser.add_argument("--width", type=int, default=64)
    asked = options(parser)
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Augmented(packed=asked.packed, blurs=asked.blurs, seed=asked.seed),
        batch_size=asked.batch_size,
        shuffle=True,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear((SIZE // 4) ** 2, asked.width), nn.ReLU(), nn.Linear(asked.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    pace = Pace(asked.seconds)
    for images in loader:
        optimizer.zero_grad()
        model(images).mean().backward()
        optimizer.step()
        if pace.is_over(len(images)):
            break


if __name__ == "__main__":
    main()
