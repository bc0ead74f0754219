"""Never ends by itself. With "swallow" a bare except takes whatever is raised at a step."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=2, num_workers=int("workers" in sys.argv))
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    # More parameters, but never more steps.
    other = torch.optim.SGD([torch.zeros(100, requires_grad=True)], lr=0.0)
    epoch = 0
    while True:
        epoch += 1
        for (x,) in loader:
            try:
                model(x).square().mean().backward()
                optimizer.step()
                if epoch % 2:
                    other.step()
                    epoch += 1
            except:  # noqa: E722
                print("caught", sys.exc_info()[0], flush=True)
                if "swallow" not in sys.argv:
                    raise


if __name__ == "__main__":
    main()
