"""Where a silent training hangs: in its own lock, at a worker, at another rank, in a wait of the kernel, or at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.root_cause import is_library, short_place
from vtune.domain.events import ProcessStack, StackFrame

# What a process does that is neither idle nor quite at work: a core is shared, and the look at it is short.
AT_WORK = 0.5
MOST_NAMED = 3
_OF_A_LOADER = ("_try_get_data", "_get_data")
# What torch and Python are in, from the inside out, and what that waits for.
WAITS_FOR = (
    (_OF_A_LOADER, "waiting for a batch of its loader"),
    (("synchronize",), "waiting for the device"),
    (("barrier", "all_reduce", "all_gather", "broadcast", "monitored_barrier"), "waiting for the other ranks"),
)  # fmt: skip
LIBRARIES = (
    ("/torch/distributed/", "waiting for the other ranks"),
    ("/subprocess.py", "waiting for a child process"),
    ("/multiprocessing/connection.py", "waiting for another process"),
    ("/multiprocessing/synchronize.py", "waiting for a lock"),
    ("/threading.py", "waiting for a lock or a thread"),
    ("/queue.py", "waiting for a queue"),
    ("/socket.py", "waiting for the network"),
    ("/ssl.py", "waiting for the network"),
)
KERNEL = (
    ("futex", "waiting for a lock"),
    ("nanosleep", "sleeping"),
    ("pipe", "waiting for a pipe"),
    ("do_wait", "waiting for a child process"),
    ("sk_wait", "waiting for the network"),
    ("inet_", "waiting for the network"),
    ("unix_stream", "waiting for another process"),
    ("flock", "waiting for a file lock"),
    ("fcntl", "waiting for a file lock"),
    ("locks_lock", "waiting for a file lock"),
    ("poll", "waiting for a file or a socket"),
)


def where_it_hangs(stacks: Sequence[ProcessStack], leader: int | None, workers: Mapping[int, int]) -> str | None:
    """One sentence, from the process that steps to the one that it waits for."""
    main = _leader(stacks, leader, workers)
    if main is None:
        return None
    said = _said_of("the training", main, main.frames)
    others = [one for one in stacks if one is not main]
    stuck, idle = [], 0
    for one in others:
        own = _inside_worker(one)
        if own is None:
            continue
        if _own_frame(own) is None and one.state not in "DTt" and _has_no_work(own):
            idle += 1
        else:
            slot = workers.get(one.pid)
            name = f"worker {slot} (pid {one.pid})" if slot is not None else f"a worker (pid {one.pid})"
            stuck.append(_said_of(name, one, own))
    parts = [said, *stuck[:MOST_NAMED]]
    if len(stuck) > MOST_NAMED:
        parts.append(f"{len(stuck) - MOST_NAMED} more workers likewise")
    if idle:
        others_idle = "the other worker has" if idle == 1 else f"the other {idle} workers have"
        all_idle = "its worker has" if idle == 1 else f"its {idle} workers have"
        parts.append(f"{others_idle if stuck else all_idle} nothing to do")
    parts += _deaf_or_stopped([one for one in others if _inside_worker(one) is None])
    return "; ".join(parts)


def may_wait_for_a_worker(stacks: Sequence[ProcessStack]) -> bool:
    """Also where no process beside the workers has said where it is. A thread may load ahead for all."""
    asked = [one for one in stacks if _inside_worker(one) is None and one.frames]
    frames = [frame for one in asked for thread in (one.frames, *one.threads) for frame in thread]
    return not asked or any(frame.function in _OF_A_LOADER for frame in frames)


def _leader(stacks: Sequence[ProcessStack], leader: int | None, workers: Mapping[int, int]) -> ProcessStack | None:
    named = next((one for one in stacks if one.pid == leader), None)
    if named is not None:
        return named
    # Nobody has stepped: the outermost process that answered, launchers and shells left out.
    answered = [one for one in stacks if one.frames and one.pid not in workers and _inside_worker(one) is None]
    return answered[0] if answered else (stacks[0] if stacks else None)


def _said_of(who: str, stack: ProcessStack, frames: Sequence[StackFrame]) -> str:
    own = _own_frame(frames)
    place = "" if own is None else f" is at {short_place(own.file)}:{own.line} in {own.function}"
    doing = _doing(stack, frames, own)
    return f"{who}{place}, {doing}" if place else f"{who} is {doing}"


def _doing(stack: ProcessStack, frames: Sequence[StackFrame], own: StackFrame | None) -> str:
    if stack.state == "D":
        where = f" ({stack.waits_in})" if stack.waits_in else ""
        return f"in a wait of the kernel that nothing interrupts{where}: storage or a driver that does not answer"
    if stack.state in ("T", "t"):
        return "stopped (SIGSTOP, or a debugger)"
    if stack.state == "R" or (stack.busy is not None and stack.busy >= AT_WORK):
        return "computing"
    inner = frames[: frames.index(own)] if own in frames else frames
    for frame in inner:
        for names, words in WAITS_FOR:
            if frame.function in names:
                return words
    for frame in inner:
        for part, words in LIBRARIES:
            if part in frame.file:
                return words
    for part, words in KERNEL:
        if stack.waits_in and part in stack.waits_in:
            return words
    if not frames:
        return f"waiting in {stack.waits_in}" if stack.waits_in else "waiting, and did not say where"
    return f"waiting in {stack.waits_in}" if stack.waits_in else "waiting"


def _inside_worker(stack: ProcessStack) -> Sequence[StackFrame] | None:
    """Frames within torch's loop of a worker: outside of it a forked one still has its parent's. One that does not
    answer is known by the name that torch gives it."""
    at = next((i for i, frame in enumerate(stack.frames) if frame.function == "_worker_loop"), None)
    if at is not None:
        return stack.frames[:at]
    return () if stack.name.startswith("pt_data_worker") else None


def _has_no_work(frames: Sequence[StackFrame]) -> bool:
    """It waits for the number of its next batch."""
    return any(frame.file.endswith("/multiprocessing/queues.py") for frame in frames)


def _own_frame(frames: Sequence[StackFrame]) -> StackFrame | None:
    return next((frame for frame in frames if not is_library(frame.file)), None)


def _deaf_or_stopped(others: Sequence[ProcessStack]) -> list[str]:
    return [
        _said_of(f"process {one.pid} ({one.name})", one, one.frames) for one in others if one.state in ("D", "T", "t")
    ][:MOST_NAMED]
