"""Data parallel on the CPU: start it with torchrun."""

import gc

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 2))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        # More than any test waits for: it is ended from outside.
        for _ in range(100_000):
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
    finally:
        # Its threads would be found running at exit, which aborts the process now and then. The model holds the group
        # as well.
        del model
        gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
