"""A sanity check on the validation loader comes first, and each epoch ends with one; gradients are accumulated."""

import torch
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 3


def validate(model: torch.nn.Module, loader: DataLoader, most: int | None = None) -> None:
    with torch.no_grad():
        total = torch.zeros(())
        for number, (x, y) in enumerate(loader):
            if number == most:
                break
            total += torch.nn.functional.mse_loss(model(x), y)
    print("validation", total.item())


def main() -> None:
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(torch.randn(36, 3), torch.randn(36, 1)), batch_size=2, shuffle=True)
    held_out = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=2)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    validate(model, held_out, most=2)
    for _ in range(2):
        for number, (x, y) in enumerate(train):
            loss = torch.nn.functional.mse_loss(model(x), y) / ACCUMULATE
            loss.backward()
            if (number + 1) % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
                print("step", loss.item())
        validate(model, held_out)


if __name__ == "__main__":
    main()
