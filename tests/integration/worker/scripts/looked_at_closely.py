"""What a step may do that a closer look must not change: warnings that point up the stack, errors, several forwards."""

import argparse
import traceback

import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
        # Its dimension is left to torch, which warns on a line some frames up.
        self.softmax = torch.nn.Softmax()

    def forward(self, x: torch.Tensor, fails: bool = False) -> torch.Tensor:
        y = self.inner(x[:, :1] if fails else x)
        return self.softmax(y)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--closure", action="store_true")
    parser.add_argument("--functional", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(120, 2)), batch_size=2, shuffle=True)
    model, criterion = Model(), torch.nn.MSELoss()
    weight = torch.zeros(2, 2, requires_grad=True)
    if options.closure:
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    else:
        optimizer = torch.optim.SGD([*model.parameters(), weight], lr=0.1)
    for number, (x,) in enumerate(loader):
        if number % 6 == 5:
            try:
                model(x, fails=True)
            except RuntimeError:
                print(traceback.format_exc())

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            y = x @ weight if options.functional else model(x) + model(x)
            loss = criterion(y, torch.ones_like(y))
            loss.backward()
            return loss

        loss = optimizer.step(closure) if options.closure else closure()
        if not options.closure:
            optimizer.step()
        print(number, loss.item(), torch.rand(1).item())
    print(torch.nn.Module.__call__.__qualname__)
    model(x, fails=True)


if __name__ == "__main__":
    main()
