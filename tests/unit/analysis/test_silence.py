"""Where a silent training hangs, from its processes' stacks and what the kernel says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtune.analysis.silence import may_wait_for_a_worker, where_it_hangs
from vtune.domain.events import ProcessStack, StackFrame

TORCH = "/env/lib/python3.11/site-packages/torch/utils/data"


def frames(*places: str) -> tuple[StackFrame, ...]:
    """Innermost first: `file:line function`."""
    found = []
    for place in places:
        where, function = place.split(" ")
        file, line = where.rsplit(":", 1)
        found.append(StackFrame(file=file, line=int(line), function=function))
    return tuple(found)


OUTER = ("/home/me/train.py:90 main", "/home/me/train.py:99 <module>")
WAITS = frames(
    "/usr/lib/python3.11/multiprocessing/connection.py:947 wait",
    f"{TORCH}/dataloader.py:1291 _try_get_data",
    f"{TORCH}/dataloader.py:725 __next__",
    *OUTER,
)
IDLE = frames(
    "/usr/lib/python3.11/multiprocessing/connection.py:947 wait",
    "/usr/lib/python3.11/multiprocessing/queues.py:113 get",
    f"{TORCH}/_utils/worker.py:300 _worker_loop",
    *OUTER,
)
AT_WORK = frames("/home/me/data.py:41 __getitem__", f"{TORCH}/_utils/worker.py:374 _worker_loop", *OUTER)


def process(
    pid: int,
    stack: tuple[StackFrame, ...] = (),
    *,
    state: str = "S",
    waits_in: str | None = "futex_wait_queue",
    busy: float | None = 0.0,
    name: str = "python",
) -> ProcessStack:
    return ProcessStack(pid=pid, ppid=1, name=name, state=state, waits_in=waits_in, busy=busy, frames=stack)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the training is at train.py:90 in main, waiting for a lock"),
        ({"busy": 0.98, "waits_in": None}, "the training is at train.py:90 in main, computing"),
        ({"waits_in": "hrtimer_nanosleep"}, "the training is at train.py:90 in main, sleeping"),
        ({"state": "T"}, "the training is at train.py:90 in main, stopped (SIGSTOP, or a debugger)"),
        ({"waits_in": "do_exotic"}, "the training is at train.py:90 in main, waiting in do_exotic"),
    ],
)
def test_what_the_training_itself_does_is_told(changes: dict[str, object], said: str) -> None:
    assert where_it_hangs([process(7, frames(*OUTER), **changes)], 7, {}) == said  # type: ignore[arg-type]


def test_a_process_deaf_in_the_kernel_is_told_by_the_kernels_word_alone() -> None:
    said = where_it_hangs([process(7, state="D", waits_in="nfs_wait_bit_killable")], 7, {})
    assert said is not None and "nothing interrupts (nfs_wait_bit_killable): storage or a driver" in said


def test_the_worker_that_is_waited_for_is_named_and_the_others_are_idle() -> None:
    stacks = [process(7, WAITS, waits_in="poll"), process(8, IDLE), process(9, AT_WORK), process(10, IDLE)]
    assert where_it_hangs(stacks, 7, {8: 0, 9: 1, 10: 2}) == (
        "the training is at train.py:90 in main, waiting for a batch of its loader; "
        "worker 1 (pid 9) is at data.py:41 in __getitem__, waiting for a lock; the other 2 workers have nothing to do"
    )


def test_a_forked_workers_outer_frames_are_its_parents_and_not_its_own() -> None:
    said = where_it_hangs([process(7, frames(*OUTER)), process(8, IDLE)], 7, {8: 0})
    assert said is not None and said.endswith("; its worker has nothing to do")


def test_a_deaf_worker_is_named_though_it_does_not_answer() -> None:
    deaf = process(9, state="D", waits_in="folio_wait_bit", name="pt_data_worker")
    said = where_it_hangs([process(7, WAITS), deaf], 7, {9: 1})
    assert said is not None and "worker 1 (pid 9) is in a wait of the kernel that nothing interrupts" in said


def test_of_a_training_that_never_stepped_the_outermost_process_that_answers_is_told() -> None:
    stacks = [process(5, name="sh"), process(7, frames(*OUTER)), process(8, IDLE)]
    said = where_it_hangs(stacks, None, {8: 0})
    assert said is not None and said.startswith("the training is at train.py:90 in main")


def test_without_a_stack_nothing_is_said() -> None:
    assert where_it_hangs([], None, {}) is None


def test_workers_are_suspected_where_somebody_waits_for_their_batch_or_nobody_tells() -> None:
    asleep, worker = process(1, frames(*OUTER)), process(2, AT_WORK)
    assert may_wait_for_a_worker([process(1, WAITS), worker])
    assert not may_wait_for_a_worker([asleep, worker])
    # A thread that loads ahead; a rank beside the one that waits for it.
    assert may_wait_for_a_worker([replace(asleep, threads=(WAITS,)), worker])
    assert may_wait_for_a_worker([asleep, process(3, WAITS), worker])
    assert may_wait_for_a_worker([process(1), worker]) and may_wait_for_a_worker([])
