"""One model, one optimizer, one loader that lives for all epochs; settings from arguments."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--persistent", action="store_true")
parser.add_argument("--pin", action="store_true")
parser.add_argument("--start-method")
parser.add_argument("--batch-sampler", action="store_true")


def main() -> None:
    options = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(22, 3), torch.randn(22, 1))
    settings = {
        "num_workers": options.workers,
        "persistent_workers": options.persistent,
        "pin_memory": options.pin,
        "multiprocessing_context": options.start_method,
    }
    if options.batch_sampler:
        sampler = torch.utils.data.RandomSampler(data)
        settings["batch_sampler"] = torch.utils.data.BatchSampler(sampler, options.batch, drop_last=False)
        loader = DataLoader(data, **settings)
    else:
        loader = DataLoader(data, options.batch, True, **settings)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(options.epochs):
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(epoch, step, len(x), loss.item())
    print("weights", [p.tolist() for p in model.parameters()])


if __name__ == "__main__":
    main()
