"""Which memory ran out: the kernel's word goes before the training's, and SIGKILL alone is no sign of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vtune.analysis.memory_ended import out_of_memory
from vtune.analysis.root_cause import Root
from vtune.domain.trial import KernelKill, MemoryGroupEnd, TrialOutcome, TrialStatus

GIB = 2**30
OUTCOME = TrialOutcome(ended_by="itself", exit_code=None, signal=9, seconds=10.0)
KILLED = Root(who=None, pid=None, signal=9, error="")
KERNEL = KernelKill(pid=77, of_group=True, words="Memory cgroup out of memory: Killed process 77 (python)")


def judged(root: Root = KILLED, words: str = "", outcome: TrialOutcome = OUTCOME, **seen: Any) -> Any:
    known = {"available_bytes": 8 * GIB, "ram_bytes": 16 * GIB, "shm_bytes": 8 * GIB, "shm_used_bytes": 0}
    return out_of_memory(outcome, root, words, **{**known, **seen})


def test_a_kill_without_any_sign_of_memory_is_not_laid_at_memorys_door() -> None:
    assert judged() is None
    assert judged(available_bytes=None, ram_bytes=None) is None


def test_the_kernels_log_names_whom_it_killed() -> None:
    worker = Root(who="loader worker 1 (pid 77)", pid=77, signal=9, error="")
    status, why = judged(worker, outcome=replace(OUTCOME, kernel_killed=(KERNEL,)))
    assert status is TrialStatus.OUT_OF_RAM
    assert why == "the kernel killed loader worker 1 (pid 77) for memory: its control group was at its limit"
    machine = replace(KERNEL, of_group=False)
    assert "the machine was out of RAM" in judged(outcome=replace(OUTCOME, kernel_killed=(machine,)))[1]


def test_the_trials_own_group_tells_of_a_kill_where_the_log_cannot_be_read() -> None:
    group = MemoryGroupEnd(kind="cgroup v1", limit_bytes=4 * GIB, oom_kills=2)
    status, why = judged(outcome=replace(OUTCOME, group=group))
    assert status is TrialStatus.OUT_OF_RAM and "2 processes" in why and "4 GiB" in why
    assert judged(outcome=replace(OUTCOME, group=replace(group, oom_kills=0))) is None
    further_out = judged(outcome=replace(OUTCOME, group=replace(group, at_limit=False)))
    assert further_out is not None and "limit around" in further_out[1] and "4 GiB" not in further_out[1]


def test_the_machines_count_of_kills_is_evidence_for_a_sigkill_and_for_nothing_else() -> None:
    meanwhile = replace(OUTCOME, machine_oom_kills=1)
    assert judged(outcome=meanwhile)[0] is TrialStatus.OUT_OF_RAM
    assert judged(replace(KILLED, signal=15), outcome=meanwhile) is None


def test_a_kill_when_hardly_any_ram_was_left_is_most_likely_the_kernels() -> None:
    status, why = judged(available_bytes=64 * 2**20)
    assert status is TrialStatus.OUT_OF_RAM and "only 64 MiB of RAM were available" in why


@pytest.mark.parametrize(
    ("shm_bytes", "used", "expected"),
    [
        (64 * 2**20, 0, TrialStatus.OUT_OF_SHM),
        (8 * GIB, 5 * GIB, TrialStatus.OUT_OF_SHM),
        (8 * GIB, 0, None),
        (None, None, TrialStatus.OUT_OF_SHM),
    ],
)
def test_a_bus_error_is_that_of_a_full_shm_unless_there_was_ample_room(
    shm_bytes: int | None, used: int | None, expected: TrialStatus | None
) -> None:
    found = judged(replace(KILLED, signal=7), shm_bytes=shm_bytes, shm_used_bytes=used)
    assert (found and found[0]) is expected


CAUSE = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise RuntimeError("CUDA out of memory comes from elsewhere")
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB

{link}

Traceback (most recent call last):
  File "train.py", line 11, in <module>
    raise RuntimeError("the fit failed") from error
RuntimeError: the fit failed
"""
WORKERS = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    batch = next(batches)
RuntimeError: Caught RuntimeError in pin memory thread for device 0.
Original Traceback (most recent call last):
  File "pin_memory.py", line 40, in do_one_step
RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes
"""


@pytest.mark.parametrize(
    ("error", "words", "expected"),
    [
        (
            "RuntimeError: the fit failed",
            CAUSE.format(link="The above exception was the direct cause of the following exception:"),
            "out_of_vram",
        ),
        ("RuntimeError: the fit failed", "CUDA out of memory\n" + CAUSE.partition("{link}\n\n")[2], None),
        ("RuntimeError: Caught RuntimeError in pin memory thread for device 0.", WORKERS, "out_of_ram"),
        ("KeyError: 'a'", "halving the batch after CUDA out of memory\nKeyError: 'a'", None),
        ("99%|####9| 9/10 [00:01]", "CUDA out of memory\n99%|####9| 9/10 [00:01]", "out_of_vram"),
    ],
)
def test_an_error_is_judged_with_its_causes_and_without_what_was_said_before_it(
    error: str, words: str, expected: str | None
) -> None:
    found = judged(replace(KILLED, signal=None, error=error), words)
    assert (found and found[0].value) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("RuntimeError: unable to mmap 64 bytes from file </torch_1_2>: Cannot allocate memory (12)", "out_of_ram"),
        ("RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2>: No space left", "out_of_shm"),
        ("OSError: [Errno 12] Cannot allocate memory", "out_of_ram"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out_of_ram"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out_of_vram"),
        ("OSError: [Errno 28] No space left on device: '/data/checkpoints/last.pt'", None),
        ("OSError: [Errno 28] No space left on device: '/home/me/torch_project/last.pt'", None),
        ("OSError: [Errno 28] No space left on device: '/psm_1a2b'", "out_of_shm"),
        ("RuntimeError: unable to write to file </torch_7_8_0>: No space left on device (28)", "out_of_shm"),
        (
            "RuntimeError: unable to open shared memory object </torch_7_8_0> in read-write mode: "
            "Too many open files (24)",
            None,
        ),
        ("RuntimeError: unable to open file </data/torch_x.pt> in read-only mode: No such file (2)", None),
    ],
)
def test_the_words_tell_which_memory_it_was(words: str, expected: str | None) -> None:
    found = judged(replace(KILLED, signal=None, error=words), words)
    assert (found and found[0].value) == expected


@pytest.mark.parametrize("signal", [1, 2, 9, 11, 15])
def test_a_shortage_that_was_caught_is_not_why_somebody_else_ended_the_training(signal: int) -> None:
    words = "CUDA out of memory, halving the batch\nepoch 3 done"
    assert judged(replace(KILLED, signal=signal), words) is None


def test_a_training_that_aborted_is_believed_what_it_said_last() -> None:
    words = "terminate called after throwing an instance of 'std::bad_alloc'"
    assert judged(replace(KILLED, signal=6), words)[0] is TrialStatus.OUT_OF_RAM


def test_a_shortage_of_long_ago_is_not_why_a_training_without_an_error_ended() -> None:
    caught = "torch.OutOfMemoryError: CUDA out of memory"
    epochs = "\n".join(f"epoch {n} done" for n in range(6))
    left = replace(KILLED, signal=None, error="dice 0.1 is below the threshold")
    assert judged(left, f"{caught}\n{epochs}\ndice 0.1 is below the threshold") is None
    assert judged(left, f"{epochs}\n{caught}\nsrun: error: task 0 failed")[0] is TrialStatus.OUT_OF_VRAM
