"""The processes of a distributed training under torchrun, or the one process of any other."""

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")

# The longest that one rank may wait for another: a validation record more, or a volume that is slow to read. A rank
# that dies is noticed by torchrun, which ends the others, and not by waiting.
PATIENCE = timedelta(hours=2)


class FailedElsewhere(Exception):
    """Another rank cannot go on, and has said why."""


class RankError(Exception):
    """This rank cannot take part; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model whose backward averages gradients over all ranks; alone, the model itself."""
        if self.count == 1:
            return model
        on_gpu = self.device.type == "cuda"
        return DistributedDataParallel(model, device_ids=[self.device.index] if on_gpu else None)

    def mean(self, values: Tensor) -> Tensor:
        """Over the ranks, in place. A NaN of one becomes everybody's."""
        if self.count > 1:
            distributed.all_reduce(values)
            values /= self.count
        return values

    def any(self, flag: bool) -> bool:
        return flag if self.count == 1 else any(self.gather(flag))

    def gather(self, value: T) -> list[T]:
        """Each rank's, in their order."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value)
        return values

    def agree(self, work: Callable[[], T]) -> T:
        """What each rank makes for itself. Where one of them fails all end here, and only that one says why."""
        if self.count == 1:
            return work()
        try:
            made = work()
        except Exception:
            self.gather(False)
            raise
        if not all(self.gather(True)):
            raise FailedElsewhere
        return made

    def by_first(self, work: Callable[[], T]) -> T:
        """What the first rank makes, given to all: one of them reads or writes, and they agree on what was there."""
        made: list[Any] = self.gather(self.agree(lambda: work() if self.is_first else None))
        first: T = made[0]
        return first


@contextlib.contextmanager
def joined() -> Iterator[Ranks]:
    """Takes this process's place among those that torchrun started."""
    on_gpu = torch.cuda.is_available()
    count = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if count == 1:
        yield Ranks(rank=0, count=1, device=torch.device("cuda" if on_gpu else "cpu"))
        return
    device = torch.device("cpu")
    if on_gpu:
        index, here = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if index >= here:
            raise RankError(f"rank {os.environ['RANK']} has no GPU: {here} here, torchrun started more processes")
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=PATIENCE)
    leaves_in_order = False
    try:
        yield Ranks(rank=distributed.get_rank(), count=count, device=device)
        leaves_in_order = True
    except SystemExit:
        leaves_in_order = True
        raise
    finally:
        # NCCL waits here for what is still under way, which after a failure may be for ever. gloo does not, and its
        # threads would be found running at exit, which now and then aborts the process.
        if leaves_in_order or not on_gpu:
            # The model's wrapper holds the group as well.
            gc.collect()
            distributed.destroy_process_group()


def exchanging(network: nn.Module, *, now: bool) -> contextlib.AbstractContextManager[None]:
    """Ranks exchange their gradients once a step, in the backward of its last micro-batch."""
    if isinstance(network, DistributedDataParallel) and not now:
        context: contextlib.AbstractContextManager[None] = network.no_sync()
        return context
    return contextlib.nullcontext()
