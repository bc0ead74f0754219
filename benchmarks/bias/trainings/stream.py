"""An iterable data set of signals, of which each worker reads its share: a wait a record, and spectra in NumPy."""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import torch
from pace import Pace, options
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

RECORDS = 1_000_000


class Signals(IterableDataset):
    def __init__(self, wait_ms: float, spectra: int, seed: int) -> None:
        self.wait_s, self.spectra, self.seed = wait_ms / 1e3, spectra, seed

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number in range(first, RECORDS, stride):
            yield self.record(number)

    def record(self, number: int) -> torch.Tensor:
        if self.wait_s:
            time.sleep(self.wait_s)
        signal = np.random.default_rng((self.seed, number)).standard_normal(8192)
        for _ in range(self.spectra):
            signal = np.fft.irfft(np.fft.rfft(signal) * 0.99)
        return torch.from_numpy(signal[:256].astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--wait-ms", type=float, default=0.0, help="a record")
    parser.add_argument("--spectra", type=int, default=1, help="a record")
    asked = options(parser)
    torch.manual_seed(asked.seed)
    loader = DataLoader(
        Signals(asked.wait_ms, asked.spectra, asked.seed),
        batch_size=asked.batch_size,
        num_workers=asked.workers,
        prefetch_factor=asked.prefetch if asked.workers else None,
    )
    model = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    pace = Pace(asked.seconds)
    for batch in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), batch).backward()
        optimizer.step()
        if pace.is_over(len(batch)):
            break


if __name__ == "__main__":
    main()
