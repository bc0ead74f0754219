"""A training that replaces the method by which modules are called, as profilers and tracers do; what it prints is what
it computes."""

import argparse
import contextlib
import traceback
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("how", choices=["each step", "once", "restore later", "subclass", "around each call"])
parser.add_argument("--method", default="__call__")
parser.add_argument("--at", type=int, default=5)
parser.add_argument("--at-begin", action="store_true", help="before the batch is asked for")
parser.add_argument("--caught", action="store_true")
options = parser.parse_args()
METHOD = options.method
calls: list[str] = []


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Calling(Model):
    pass


def over(self: nn.Module, *args: object, **kwargs: object) -> object:
    calls.append("sub")
    return getattr(super(Calling, self), METHOD)(*args, **kwargs)


if options.how == "subclass":
    setattr(Calling, METHOD, over)


@contextlib.contextmanager
def counted() -> Iterator[None]:
    original = getattr(nn.Module, METHOD)

    def mine(self: nn.Module, *args: object, **kwargs: object) -> object:
        calls.append(type(self).__name__)
        return original(self, *args, **kwargs)

    setattr(nn.Module, METHOD, mine)
    try:
        yield
    finally:
        setattr(nn.Module, METHOD, original)


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(80, 2)), batch_size=2, shuffle=True)
    model = Calling()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    open_until: list[contextlib.AbstractContextManager[None]] = []
    batches = iter(loader)
    for number in range(40):
        with contextlib.ExitStack() as stack:
            if options.how == "each step" and options.at_begin:
                stack.enter_context(counted())
            (x,) = next(batches)
            if options.how == "each step" and not options.at_begin:
                stack.enter_context(counted())
            if number == options.at and options.how in ("once", "restore later"):
                open_until.append(counted())
                open_until[-1].__enter__()
            try:
                if options.how == "around each call":
                    with counted():
                        y = model(x)
                else:
                    y = model(x)
                loss = nn.functional.mse_loss(y, x)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                print(number, loss.item(), len(calls), torch.rand(1).item())
            except RuntimeError:
                if not options.caught:
                    raise
                print(number, traceback.format_exc(limit=3))
            if options.how == "restore later" and number == options.at + 9:
                open_until.pop().__exit__(None, None, None)
    print(calls[-3:], model.inner[0].weight.tolist())
    try:
        model(x[:, :1])
    except RuntimeError:
        print(traceback.format_exc())
    for name in ("__call__", "_call_impl"):
        print(name, getattr(nn.Module, name).__qualname__)


main()
