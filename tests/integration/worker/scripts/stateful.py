"""A training with the loader of torchdata, without and with workers."""

import torch
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader


def main() -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(10, 2))
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for workers in (0, 2):
        loader = StatefulDataLoader(data, batch_size=3, num_workers=workers, persistent_workers=workers > 0)
        for _ in range(2):
            for (x,) in loader:
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(loss.item())


if __name__ == "__main__":
    main()
