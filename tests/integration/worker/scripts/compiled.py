"""The whole step goes through torch.compile; then one that also fetches its batch."""

from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, TensorDataset

compiled_graphs = 0


def counting(graph, inputs):
    global compiled_graphs
    compiled_graphs += 1
    return graph.forward


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 2)), batch_size=4)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step_of_the_next(batches) -> torch.Tensor:
        (x,) = next(batches)
        loss = model(x).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
        return loss

    compiled: Callable = torch.compile(step, backend=counting)
    for (x,) in loader:
        print(compiled(x).item(), compiled_graphs)
    torch._dynamo.reset()
    compiled = torch.compile(step_of_the_next, backend=counting)
    batches = iter(loader)
    for _ in range(len(loader)):
        print(compiled(batches).item(), compiled_graphs)


if __name__ == "__main__":
    main()
