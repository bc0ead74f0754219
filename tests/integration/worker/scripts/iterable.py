"""An iterable data set that splits itself between workers, and reports a length that is too small."""

from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, stride = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, 20, stride):
            yield torch.full((2,), float(number))

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "Numbers()"


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for workers, in_order in ((0, True), (2, True), (1, False)):
        loader = DataLoader(Numbers(), batch_size=4, num_workers=workers, in_order=in_order)
        print("length", len(loader))
        for x in loader:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("batch", len(x), loss.item())


if __name__ == "__main__":
    main()
