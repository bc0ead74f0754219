"""The table of ends: how each is provoked, the status that it must get, and words that its sentence must hold."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from support.light import LIGHT

# {item}: in the data set, {before}: before the loop, {after}: in the loop after the step, {end}: after the loop.
TRAINING = (
    LIGHT
    + """
import os, signal, subprocess, sys, threading, time
import torch

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return {samples}

    def __getitem__(self, index):
        {item}
        return torch.ones({width})

weight = torch.nn.Parameter(torch.zeros({width}))
optimizer = torch.optim.SGD([weight], lr=0.01)

def step(batch, factor=1.0):
    optimizer.zero_grad()
    (((weight * batch).mean() * factor - 1.0) ** 2).backward()
    optimizer.step()

def train():
    {before}
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers={workers})
    for number, batch in enumerate(loader):
        step(batch)
        time.sleep(0.02)
        {after}
    {end}

if __name__ == "__main__":
    train()
"""
)

# From now on the test acts on it.
READY = "if number == 8: print('ready', flush=True); time.sleep(60)"


@dataclass(frozen=True, kw_only=True)
class Case:
    # What is done to the training, as the table of docs/ends.md says it.
    means: str
    status: str
    # All of them are in the record's sentence.
    words: tuple[str, ...]
    script: str
    exit_code: int = 5
    options: tuple[str, ...] = ()
    # In place of `python train.py`.
    command: tuple[str, ...] = ()
    window: dict[str, str] = field(default_factory=dict)
    # A name in acts.py: what the test does once the script says that it is ready.
    act: str | None = None
    # A memory group of so many bytes is there for the script, under the name GROUP.
    group_bytes: int | None = None
    # /dev/shm of the whole case, where its size matters.
    shm: str = ""
    # In a note of the record.
    note: str = ""
    torchrun: bool = False


def training(
    *,
    item: str = "pass",
    before: str = "pass",
    after: str = "pass",
    end: str = "pass",
    workers: int = 0,
    samples: int = 4000,
    width: int = 3,
) -> str:
    return TRAINING.format(
        item=item, before=before, after=after, end=end, workers=workers, samples=samples, width=width
    )


def at(number: int, what: str) -> str:
    return f"if number == {number}: {what}"


PYTHON = sys.executable
SLEEPS = {"hang_time": "60s"}
HANGS = {"hang_time": "4s"}
# Ranks that do not wait for each other.
LONG = {"steps": "300", "max_steps": "300"}
RANKS = (
    LIGHT
    + """
import os, signal, sys, time
import torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.01)
rank = int(os.environ["RANK"])
for number in range(400):
    (weight * 1.0).sum().backward()
    optimizer.step()
    time.sleep(0.02)
    if number == 8 and rank == 1:
        {what}
"""
)
SPAWNED = (
    LIGHT
    + """
import os, signal, sys, time
import torch
def main(rank):
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=0.01)
    for number in range(400):
        weight.sum().backward()
        optimizer.step()
        time.sleep(0.02)
        if number == 8 and rank == 1:
            {what}
if __name__ == "__main__":
    torch.multiprocessing.spawn(main, nprocs=2)
"""
)
# The group is the test's; only the process that is meant goes into it.
INTO_GROUP = "open(os.environ['GROUP'] + '/cgroup.procs', 'w').write(str(os.getpid()))"
FILL = "kept = [bytearray(b'x' * 2**20) for _ in range(4000)]"

FILL_SHM = (
    "s = __import__('multiprocessing.shared_memory').shared_memory.SharedMemory(create=True, size=2**24); "
    "s.buf[:] = bytes(2**24)"
)

CASES: dict[str, Case] = {
    # --- completed ---
    "window full": Case(means="enough steps", status="completed", words=(), exit_code=0, script=training()),
    "ends well": Case(
        means="exit 0 after 40 steps, 60 asked",
        status="completed",
        words=("ended by itself", "measured steps"),
        exit_code=0,
        script=training(samples=80),
        window={"steps": "60", "max_steps": "60"},
    ),
    "provisional": Case(
        means="0.4 s a step, trial time 4 s",
        status="completed",
        words=("ended by the trial time of 4 s",),
        exit_code=0,
        script=training(after="time.sleep(0.4)"),
        window={"trial_time": "4s"},
    ),
    "thread fails": Case(
        means="a thread raises, the training goes on",
        status="completed",
        words=("ended by itself",),
        exit_code=0,
        note="KeyError: 'logger'",
        script=training(
            before="t = threading.Thread(target=lambda: {}['logger'], name='log'); t.start(); t.join()", samples=80
        ),
        window={"steps": "60", "max_steps": "60"},
    ),
    # --- crashed ---
    "raises": Case(
        means="an exception in the loop",
        status="crashed",
        words=("exit code 1", "after 9 steps", "ValueError: patch 8 is empty", "train.py:", "in train"),
        script=training(after=at(8, "raise ValueError('patch 8 is empty')")),
    ),
    "exit message": Case(
        means='sys.exit("message")',
        status="crashed",
        words=("exit code 1", "no checkpoint to start from"),
        script=training(after=at(8, "sys.exit('no checkpoint to start from')")),
    ),
    "os._exit": Case(
        means="os._exit(5) without a word",
        status="crashed",
        words=("exit code 5", "without a word"),
        script=training(after=at(8, "os._exit(5)")),
    ),
    "import": Case(
        means="an import that is not there",
        status="crashed",
        words=("No module named 'no_such_module_of_anybody'",),
        script="import no_such_module_of_anybody",
    ),
    "segfault": Case(
        means="a null pointer is read",
        status="crashed",
        words=("SIGSEGV",),
        script=training(after=at(8, "__import__('ctypes').string_at(0)")),
    ),
    "segfault with its own faulthandler": Case(
        means="the same, with faulthandler.enable() in the script",
        status="crashed",
        words=("SIGSEGV",),
        script=training(before="__import__('faulthandler').enable()", after=at(8, "__import__('ctypes').string_at(0)")),
    ),
    "abort": Case(means="os.abort()", status="crashed", words=("SIGABRT",), script=training(after=at(8, "os.abort()"))),
    "killed from outside": Case(
        means="SIGKILL from outside to the training",
        status="crashed",
        words=("SIGKILL", "no sign of memory"),
        act="kill_leader",
        window=SLEEPS,
        script=training(after=READY),
    ),
    "SIGTERM from outside": Case(
        means="SIGTERM from outside to the training",
        status="crashed",
        words=("SIGTERM", "vtune did not send"),
        act="terminate_leader",
        window=SLEEPS,
        script=training(after=READY),
    ),
    "SIGINT from outside": Case(
        means="SIGINT from outside to the training",
        status="crashed",
        words=("SIGINT",),
        act="interrupt_leader",
        window=SLEEPS,
        script=training(after=READY),
    ),
    "137 of a shell": Case(
        means="killed under `sh -c`, which ends with 137",
        status="crashed",
        words=("137", "SIGKILL", "no sign of memory"),
        command=("sh", "-c", "{python} train.py; exit $?"),
        script=training(after=at(8, "os.kill(os.getpid(), 9)")),
    ),
    "143 of a shell": Case(
        means="SIGTERM under `sh -c`, which ends with 143",
        status="crashed",
        words=("143", "SIGTERM", "vtune did not send"),
        command=("sh", "-c", "{python} train.py; exit $?"),
        script=training(after=at(8, "os.kill(os.getpid(), 15)")),
    ),
    "worker raises": Case(
        means="an exception in the data set, in a loader worker",
        status="crashed",
        words=("loader worker 1", "ValueError: bad volume 18", "train.py:", "in __getitem__"),
        script=training(item="if index == 18: raise ValueError('bad volume 18')", workers=2),
    ),
    "worker exits": Case(
        means="os._exit(3) in a loader worker",
        status="crashed",
        words=("loader worker 1", "ended first"),
        script=training(item="if index == 18: time.sleep(0.2); os._exit(3)", workers=2),
    ),
    "worker segfaults": Case(
        means="a null pointer is read in a loader worker",
        status="crashed",
        words=("loader worker 1", "SIGSEGV"),
        script=training(item="if index == 18: __import__('ctypes').string_at(0)", workers=2),
    ),
    "worker killed from outside": Case(
        means="SIGKILL from outside to a loader worker",
        status="crashed",
        words=("loader worker", "SIGKILL", "no sign of memory"),
        act="kill_worker",
        window=SLEEPS,
        script=training(after=READY, workers=2),
    ),
    "child fails": Case(
        means="a program that it starts fails",
        status="crashed",
        words=("CalledProcessError", "exit status 4"),
        script=training(after=at(8, "subprocess.run(['sh', '-c', 'exit 4'], check=True)")),
    ),
    "mapped file shortened": Case(
        means="a mapped file is made shorter, bus error with /dev/shm free",
        status="crashed",
        words=("SIGBUS", "made shorter"),
        shm="4g",
        script=training(
            before="import mmap; f = open('data.bin', 'w+b'); f.truncate(8192); m = mmap.mmap(f.fileno(), 8192)",
            after=at(8, "f.truncate(0); m[5000]"),
        ),
    ),
    "a rank raises": Case(
        means="torchrun: an exception in rank 1",
        status="crashed",
        words=("rank 1 failed first", "ValueError: shard 1 is empty", "train.py:"),
        torchrun=True,
        window=LONG,
        script=RANKS.format(what="raise ValueError('shard 1 is empty')"),
    ),
    "a rank is killed": Case(
        means="torchrun: SIGKILL to rank 1",
        status="crashed",
        words=("rank 1", "SIGKILL", "no sign of memory"),
        torchrun=True,
        window=LONG,
        script=RANKS.format(what="os.kill(os.getpid(), signal.SIGKILL)"),
    ),
    "a spawned rank raises": Case(
        means="mp.spawn: an exception in process 1",
        status="crashed",
        words=("process 1 failed first", "ValueError: shard 1 is empty", "in main"),
        window=LONG,
        script=SPAWNED.format(what="raise ValueError('shard 1 is empty')"),
    ),
    # --- out of RAM ---
    "MemoryError": Case(
        means="Python's MemoryError",
        status="out_of_ram",
        words=("MemoryError",),
        exit_code=4,
        script=training(after=at(8, "bytearray(2**60)")),
    ),
    "torch cannot allocate": Case(
        means="ENOMEM in torch's allocator",
        status="out_of_ram",
        words=("can't allocate memory",),
        exit_code=4,
        script=training(after=at(8, "torch.empty(2**58)")),
    ),
    "numpy in a worker": Case(
        means="numpy's ArrayMemoryError in a loader worker",
        status="out_of_ram",
        words=("loader worker 1", "Unable to allocate"),
        exit_code=4,
        script=training(item="if index == 18: __import__('numpy').ones(2**50)", workers=2),
    ),
    "kernel kills the training": Case(
        means="a control group of 200 MiB, made by the test: the kernel kills the training",
        status="out_of_ram",
        words=("SIGKILL", "the kernel killed", "control group"),
        exit_code=4,
        group_bytes=200 * 2**20,
        script=training(after=at(8, f"{INTO_GROUP}; {FILL}")),
    ),
    "kernel kills a worker": Case(
        means="the same with a loader worker",
        status="out_of_ram",
        words=("the kernel killed loader worker 1", "control group"),
        exit_code=4,
        group_bytes=200 * 2**20,
        script=training(item=f"if index == 18: {INTO_GROUP}; {FILL}", workers=2),
    ),
    "over the RAM limit": Case(
        means="--ram-limit 450MiB under a training that grows",
        status="out_of_ram",
        words=("limit of",),
        exit_code=4,
        options=("--ram-limit", "450MiB"),
        script=training(before="kept = []", after="kept.append(bytearray(b'x' * 20_000_000)); time.sleep(0.1)"),
        window={"steps": "200", "max_steps": "200"},
    ),
    "cannot map": Case(
        means="mmap() fails with ENOMEM",
        status="out_of_ram",
        words=("Cannot allocate memory",),
        exit_code=4,
        script=training(after=at(8, "import mmap; mmap.mmap(-1, 2**52)")),
    ),
    # --- out of shared memory ---
    "shm full by workers": Case(
        means="/dev/shm of 8 MiB, batches of 4 MiB from 2 workers",
        status="out_of_shm",
        words=("loader worker", "unable to allocate shared memory", "/dev/shm has 8 MiB"),
        exit_code=4,
        shm="8m",
        script=training(workers=2, width=2**19),
    ),
    "bus error of a worker": Case(
        means="/dev/shm of 8 MiB, a worker writes to a segment of 16 MiB: its bus error",
        status="out_of_shm",
        words=("loader worker 1", "SIGBUS", "/dev/shm has 8 MiB"),
        exit_code=4,
        shm="8m",
        script=training(item=f"if index == 18: {FILL_SHM}", workers=2),
    ),
    "bus error of the training": Case(
        means="the same in the training's own process",
        status="out_of_shm",
        words=("SIGBUS", "/dev/shm has 8 MiB"),
        exit_code=4,
        shm="8m",
        script=training(after=at(8, FILL_SHM)),
    ),
    "shm has no room for a tensor": Case(
        means="tensors are shared until /dev/shm is full",
        status="out_of_shm",
        words=("unable to allocate shared memory", "/dev/shm has 8 MiB"),
        exit_code=4,
        shm="8m",
        script=training(
            before="torch.multiprocessing.set_sharing_strategy('file_system'); kept = []",
            after="kept.append(torch.ones(2**19).share_memory_())",
        ),
    ),
    # --- out of VRAM ---
    "torch.OutOfMemoryError": Case(
        means="torch.OutOfMemoryError, raised as its allocator does",
        status="out_of_vram",
        words=("OutOfMemoryError", "train.py:"),
        exit_code=4,
        script=training(after=at(8, "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')")),
    ),
    "out of memory on the emulated device": Case(
        means="the emulated accelerator's allocator is full",
        status="out_of_vram",
        words=("emulated out of memory",),
        exit_code=4,
        script=training(
            before="from emulated.accelerator import install; gpu = install(total_bytes=2**30)",
            after="gpu.allocate(80 * 2**20)",
        ),
    ),
    "cuBLAS cannot allocate": Case(
        means="cuBLAS's words for no room, raised as it does",
        status="out_of_vram",
        words=("CUBLAS_STATUS_ALLOC_FAILED",),
        exit_code=4,
        script=training(
            after=at(
                8,
                "raise RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`')",
            )
        ),
    ),
    # --- hung ---
    "deadlock": Case(
        means="a lock is taken twice",
        status="hung",
        words=("for 4 s or more", "train.py:", "in train", "waiting for a lock"),
        window=HANGS,
        script=training(before="lock = threading.Lock()", after=at(8, "lock.acquire(); lock.acquire()")),
    ),
    "deadlock in a worker": Case(
        means="a lock that is held across the fork, in the data set",
        status="hung",
        words=("waiting for a batch of its loader", "worker 1", "in __getitem__", "waiting for a lock"),
        window=HANGS,
        script=training(
            before="global lock; lock = threading.Lock(); lock.acquire()",
            item="if index == 42: lock.acquire()",
            workers=2,
        ),
    ),
    "deadlock before the first batch": Case(
        means="every worker waits for a lock from its first sample on",
        status="hung",
        words=("after 0 steps", "waiting for a batch of its loader", "in __getitem__", "waiting for a lock"),
        window=HANGS,
        script=training(
            before="global lock; lock = threading.Lock(); lock.acquire()", item="lock.acquire()", workers=2
        ),
    ),
    "endless loop": Case(
        means="an endless loop",
        status="hung",
        words=("train.py:", "computing"),
        window=HANGS,
        script=training(after=at(8, "any(_ for _ in iter(int, 1))")),
    ),
    "stopped": Case(
        means="SIGSTOP from outside",
        status="hung",
        words=("stopped (SIGSTOP",),
        act="stop_leader",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "400", "max_steps": "400", **HANGS},
    ),
    "frozen": Case(
        means="frozen by a control group: a wait that nothing interrupts",
        status="hung",
        words=("in a wait of the kernel that nothing interrupts",),
        act="freeze_leader",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "400", "max_steps": "400", **HANGS},
    ),
    "thread that feeds it failed": Case(
        means="the thread that fills its queue raises, and it waits for ever",
        status="hung",
        words=("waiting for a", "thread feeder ended with ValueError: no more data"),
        window=HANGS,
        script=training(
            before="import queue; q = queue.Queue()\n"
            "    def feed():\n        for _ in range(8): q.put(1)\n        raise ValueError('no more data')\n"
            "    threading.Thread(target=feed, name='feeder', daemon=True).start()",
            after="q.get()",
        ),
    ),
    # --- timed out ---
    "slow steps": Case(
        means="2.5 s a step, trial time 6 s",
        status="timed_out",
        words=("within the trial time of 6 s",),
        script=training(after="time.sleep(2.5)"),
        window={"trial_time": "6s", "hang_time": "20s"},
    ),
    "slow loader": Case(
        means="1.2 s a sample, no workers",
        status="timed_out",
        words=("within the trial time of 6 s",),
        script=training(item="time.sleep(1.2)"),
        window={"trial_time": "6s", "hang_time": "20s"},
    ),
    "slow worker": Case(
        means="1.2 s a sample, one worker",
        status="timed_out",
        words=("within the trial time of 6 s",),
        script=training(item="time.sleep(1.2)", workers=1),
        window={"trial_time": "6s", "hang_time": "20s"},
    ),
    # --- diverged ---
    "loss is nan": Case(
        means="the loss becomes nan, the training goes on",
        status="diverged",
        words=("a parameter was nan after step",),
        script=training(after=at(8, "step(batch, float('nan'))"), samples=80),
        window={"steps": "60", "max_steps": "60"},
    ),
    "rate too large": Case(
        means="a learning rate of 1e9: overflow, the window is filled",
        status="diverged",
        words=("a parameter was", "after step"),
        script=training(before="optimizer.param_groups[0]['lr'] = 1e9"),
    ),
    "stops itself": Case(
        means='"Loss is nan, stopping training", exit 1',
        status="diverged",
        words=("exit code 1", "Loss is nan, stopping training"),
        script=training(after=at(8, "print('Loss is nan, stopping training'); sys.exit(1)")),
    ),
    "raises for nan": Case(
        means="FloatingPointError: the loss became infinite or NaN",
        status="diverged",
        words=("FloatingPointError", "became infinite or NaN"),
        script=training(after=at(8, "raise FloatingPointError('Loss became infinite or NaN at iteration 8!')")),
    ),
    "stops itself with 0": Case(
        means='"loss is not finite", exit 0 after 9 steps',
        status="diverged",
        words=("loss is not finite",),
        script=training(after=at(8, "print('loss is not finite: giving up'); sys.exit(0)")),
    ),
    # --- not observed ---
    "no torch": Case(
        means="exit 0, torch never imported",
        status="not_observed",
        words=("never imported",),
        script="print('hello')",
    ),
    "silent exit": Case(
        means="exit 0 before any step",
        status="not_observed",
        words=("no optimizer step was seen", "exit code 0"),
        script=training(before="sys.exit(0)"),
    ),
    "by hand": Case(
        means="parameters are updated without an optimizer",
        status="not_observed",
        words=("backward passes",),
        script="import torch\nw = torch.zeros(3, requires_grad=True)\n"
        "for b in torch.utils.data.DataLoader(torch.ones(200, 3)):\n"
        "    (w * b).sum().backward()\n    w.data -= w.grad",
    ),
    "hidden": Case(
        means="python -I",
        status="not_observed",
        words=("-E, -I or -S",),
        command=("{python}", "-I", "train.py"),
        script=training(samples=80),
    ),
    "slow start": Case(
        means="nothing within the start-up time, building",
        status="not_observed",
        words=("within 12 s", "in build"),
        script=training(before="build = lambda: time.sleep(60)\n    def build(): time.sleep(60)\n    build()"),
        window={"startup_time": "12s"},
    ),
    # --- too short ---
    "breaks": Case(
        means="the loop is left after 9 steps, exit 0",
        status="too_short",
        words=("after 9 steps",),
        script=training(after=at(8, "break")),
    ),
    "small data": Case(
        means="an epoch of 12 steps, exit 0",
        status="too_short",
        words=("after 12 steps",),
        script=training(samples=24),
    ),
    "swallows its error": Case(
        means="a worker's error is caught, exit 0",
        status="too_short",
        words=("ended by itself",),
        script=training(item="if index == 18: raise ValueError('bad volume 18')", workers=2).replace(
            "    train()\n", "    try:\n        train()\n    except ValueError:\n        pass\n"
        ),
    ),
    # --- invalid ---
    "ignored flag": Case(
        means="--set workers=2 by a flag that the script ignores",
        status="invalid",
        words=("asked for workers=2",),
        options=("--set", "workers=2"),
        command=("{python}", "train.py", "--num-workers", "0"),
        script=training(),
    ),
    "ignored batch": Case(
        means="--set batch_size=4 by a flag that the script ignores",
        status="invalid",
        words=("asked for batch_size=4",),
        options=("--set", "batch_size=4"),
        command=("{python}", "train.py", "--batch-size", "2"),
        script=training(),
    ),
    "ignored flag, diverged": Case(
        means="the same, and the parameters are nan",
        status="invalid",
        words=("asked for workers=2",),
        options=("--set", "workers=2"),
        command=("{python}", "train.py", "--num-workers", "0"),
        script=training(before="optimizer.param_groups[0]['lr'] = 1e9"),
    ),
    # --- interrupted ---
    "Ctrl-C": Case(
        means="SIGINT to vtune",
        status="interrupted",
        words=("ended by hand",),
        exit_code=130,
        act="interrupt_vtune",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "2000", "max_steps": "2000"},
    ),
    "SIGTERM to vtune": Case(
        means="SIGTERM to vtune",
        status="interrupted",
        words=("ended by hand",),
        exit_code=130,
        act="terminate_vtune",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "2000", "max_steps": "2000"},
    ),
    "a scheduler ends all": Case(
        means="SIGTERM to the training, and a moment later to vtune",
        status="interrupted",
        words=("ended by hand",),
        exit_code=130,
        act="terminate_all",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "2000", "max_steps": "2000"},
    ),
    "supervisor killed": Case(
        means="SIGKILL to vtune's supervisor",
        status="interrupted",
        words=("supervisor was killed",),
        exit_code=130,
        act="kill_supervisor",
        script=training(after="if number == 8: print('ready', flush=True)"),
        window={"steps": "2000", "max_steps": "2000"},
    ),
}


def table() -> str:
    """As it stands in docs/ends.md."""
    lines = ["| status | provoked by | the sentence holds |", "|---|---|---|"]
    for case in CASES.values():
        words = " · ".join(f"`{word}`" for word in case.words) or "nothing: all is well"
        lines.append(f"| `{case.status}` | {case.means} | {words} |")
    return "\n".join(lines)
