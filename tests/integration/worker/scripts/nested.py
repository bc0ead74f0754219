"""A data set that draws from a loader of its own for each sample: first in the training itself, then in a worker."""

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Mixed(Dataset):
    def __init__(self) -> None:
        self.inner = DataLoader(TensorDataset(torch.randn(6, 2)), batch_size=3)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.cat([x for (x,) in self.inner])[index % 6]


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for workers in (0, 1):
        for x in DataLoader(Mixed(), batch_size=4, num_workers=workers):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item())


if __name__ == "__main__":
    main()
