"""A thread runs ahead with the loader and hands batches over through a queue."""

import queue
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(20, 2)), batch_size=4)
    ahead: queue.Queue = queue.Queue(maxsize=2)

    def feed() -> None:
        for batch in loader:
            ahead.put(batch)
        ahead.put(None)

    # Before the thread: both draw random numbers, and which of them is first must not be left to chance.
    model = torch.nn.Linear(2, 1)
    threading.Thread(target=feed, daemon=True).start()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while (batch := ahead.get()) is not None:
        loss = model(batch[0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    main()
