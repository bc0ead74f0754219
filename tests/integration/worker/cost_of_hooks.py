"""What the hooks add to a step that does next to nothing: blocks with and without them take turns in one process.

Not a test (a busy machine would fail it): PYTHONPATH=vtune/worker/inject VTUNE_TRIAL=<folder> python cost_of_hooks.py
"""

import gc
import itertools
import statistics
import sys
import time

import torch
import torch.optim.optimizer as optim
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

STEPS, BLOCKS = 300, 200

watched = {
    (_BaseDataLoaderIter, "__next__"): _BaseDataLoaderIter.__next__,
    (_BaseDataLoaderIter, "_next_index"): _BaseDataLoaderIter._next_index,
    (torch.autograd, "backward"): torch.autograd.backward,
}
step_hooks = dict(optim._global_optimizer_post_hooks)


def hooks(on: bool) -> None:
    for (owner, name), wrapper in watched.items():
        setattr(owner, name, wrapper if on else wrapper.__wrapped__)
    optim._global_optimizer_post_hooks.clear()
    optim._global_optimizer_post_hooks.update(step_hooks if on else {})


def main() -> None:
    if not step_hooks:
        sys.exit("start it with PYTHONPATH=vtune/worker/inject and VTUNE_TRIAL=<an empty folder>")
    torch.set_num_threads(1)
    gc.disable()
    loader = DataLoader([torch.zeros(1)] * 4, batch_size=1, sampler=itertools.cycle(range(4)))
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    batches = iter(loader)
    times: dict[bool, list[float]] = {True: [], False: []}
    for block in range(2 * BLOCKS):
        on = block % 2 == 0
        hooks(on)
        begun = time.thread_time()
        for _ in range(STEPS):
            (weight * next(batches)).backward()
            optimizer.step()
        times[on].append((time.thread_time() - begun) / STEPS * 1e6)
        gc.collect()
    differences = [on - off for on, off in zip(times[True], times[False], strict=True)]
    low, middle, high = statistics.quantiles(differences, n=4)
    print(f"a step without hooks: {statistics.median(times[False]):.1f} us; the hooks add {middle:.1f} us", end=" ")
    print(f"(quartiles {low:.1f} to {high:.1f}; {BLOCKS} pairs of blocks of {STEPS} steps, CPU time of the thread)")


if __name__ == "__main__":
    main()
