"""torch.multiprocessing starts two processes that train; by fork or by spawn, as the argument says."""

import sys
import tempfile

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset


def train(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    loader = DataLoader(TensorDataset(torch.randn(12, 2)), batch_size=3, num_workers=rank)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with open(f"{folder}/rank{rank}.txt", "w") as file:
        for (x,) in loader:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item(), file=file)


def main() -> None:
    method, folder = sys.argv[1], tempfile.mkdtemp(dir=sys.argv[2])
    mp.start_processes(train, args=(folder,), nprocs=2, start_method=method)
    for rank in range(2):
        with open(f"{folder}/rank{rank}.txt") as file:
            print(rank, file.read())


if __name__ == "__main__":
    main()
