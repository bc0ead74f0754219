"""Loaders made in pairs by one line, anew for each epoch, with a set sampler seed; and for each part of the data."""

import torch
from torch.utils.data import DataLoader, Subset, TensorDataset


def make(data: TensorDataset) -> DataLoader:
    return DataLoader(data, batch_size=5, sampler=torch.utils.data.RandomSampler(data))


def main() -> None:
    torch.manual_seed(0)
    splits = [TensorDataset(torch.randn(length, 2)) for length in (15, 10)]
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train, test = (make(data) for data in splits)
        for (x,) in train:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(epoch, loss.item())
        with torch.no_grad():
            print("test", sum(model(x).square().sum().item() for (x,) in test))
    for part in range(3):
        chunk = DataLoader(Subset(splits[0], range(5 * part, 5 * part + 5)), batch_size=5)
        print("part", sum(x.sum().item() for (x,) in chunk))


if __name__ == "__main__":
    main()
