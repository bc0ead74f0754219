"""Which memory ran out, by the kernel's word, the training's own words, or both: and when nothing says that one did."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vtune.analysis.root_cause import SIGBUS, SIGKILL, Root
from vtune.domain.events import TelemetrySample
from vtune.domain.numbers import bytes_
from vtune.domain.trial import TrialOutcome, TrialStatus

OUT_OF_MEMORY = (
    (TrialStatus.OUT_OF_VRAM, r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
    # Before shared memory: torch tells the same way of a mapping that the kernel had no room for.
    (TrialStatus.OUT_OF_RAM, r"unable to (?:mmap|open)[^\n]*Cannot allocate memory"),
    (
        # Full, not out of descriptors, and none of the user's own files that are named alike.
        TrialStatus.OUT_OF_SHM,
        r"(?i)unable to (?:write|allocate|resize|mmap|open)[^\n]*(?:/dev/shm|shared memory|</torch_\d+_)"
        r"[^\n]*(?:No space left|\(28\))"
        r"|unable to (?:write to file|allocate shared memory)"
        r"(?![^\n]*(?:Too many|No such|Permission))[^\n]*</torch_\d+_"
        r"|No space left on device[^\n]*(?:/dev/shm|['\"]/?psm_|['\"]/?torch_\d+_)",
    ),
    (
        TrialStatus.OUT_OF_RAM,
        r"(?m)^MemoryError|\bMemoryError:|can't allocate memory|Cannot allocate memory|ArrayMemoryError|std::bad_alloc",
    ),
)
TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
CAUSE_OF_THE_NEXT = "The above exception was the direct cause of the following exception:"
# Whoever ends a training so does not do it because of what the training said before: a shortage that it caught, say.
ENDED_BY_OTHERS = (1, 2, SIGKILL, 11, 15)
# A launcher or a shell says some lines of its own after the training's last one.
LAST_LINES = 6
NO_SIGN_OF_MEMORY = "no sign of memory"
# Of RAM that is left when the kernel begins to kill; what a group has left is counted later than it is taken.
ALL_BUT_FULL = 0.02
LEAST_FREE_BYTES = 192 * 2**20
# A batch larger than this, and than half of /dev/shm, has not been seen to pass through it.
ROOM_FOR_A_BATCH = 2**30
# Memory runs full within this time.
LAST_MOMENTS_S = 2.0


def out_of_memory(
    outcome: TrialOutcome,
    root: Root,
    words: str,
    *,
    available_bytes: int | None,
    ram_bytes: int | None,
    shm_bytes: int | None,
    shm_used_bytes: int | None,
) -> tuple[TrialStatus, str] | None:
    """The status, and the sentence that tells why."""
    by_kernel = _killed_for_memory(outcome, root, available_bytes, ram_bytes)
    if by_kernel is not None:
        return TrialStatus.OUT_OF_RAM, by_kernel
    if root.signal == SIGBUS:
        return _bus_error(root, shm_bytes, shm_used_bytes)
    if root.signal in ENDED_BY_OTHERS:
        return None
    for where in (root.error, _own_words(words) if root.is_error else _last_lines(words)):
        for status, pattern in OUT_OF_MEMORY:
            # The last one: a traceback shows the source before it tells the error.
            for found in [*re.finditer(pattern, where)][-1:]:
                line = _line_of(where, found.start())
                place = f" ({root.where})" if where is root.error and root.where else ""
                who = f"{root.who} failed first: " if root.who is not None else ""
                has = f"; /dev/shm has {bytes_(shm_bytes)}" if status is TrialStatus.OUT_OF_SHM and shm_bytes else ""
                return status, f"{who}{line}{place}{has}"
    return None


def _last_lines(words: str) -> str:
    """What it said long before its end, it lived on after."""
    return "\n".join([line for line in words.splitlines() if line.strip()][-LAST_LINES:])


def _own_words(words: str) -> str:
    """What the error that ended it says in all its lines, those of its causes included, without any source."""
    begin = len(words)
    for found in reversed([*TRACEBACK.finditer(words)]):
        if begin < len(words) and not words[:begin].rstrip().endswith(CAUSE_OF_THE_NEXT):
            break
        begin = found.start()
    return "\n".join(line for line in words[begin:].splitlines() if not line.startswith(" "))


def least_available(telemetry: Sequence[TelemetrySample]) -> int | None:
    """RAM that was left when the end came: a look after it sees all that it had given back."""
    living = [sample for sample in telemetry if sample.processes]
    return min(
        (
            sample.ram_available_bytes
            for sample in living
            if sample.t_s >= living[-1].t_s - LAST_MOMENTS_S and sample.ram_available_bytes is not None
        ),
        default=None,
    )


def no_sign_of_memory(root: Root) -> str:
    who = f"{root.who} was killed by SIGKILL, " if root.who is not None else ""
    return f"{who}from outside or by the kernel; {NO_SIGN_OF_MEMORY}"


def _killed_for_memory(
    outcome: TrialOutcome, root: Root, available_bytes: int | None, ram_bytes: int | None
) -> str | None:
    for kill in outcome.kernel_killed:
        who = root.who if root.who is not None and root.pid == kill.pid else f"process {kill.pid} of the training"
        why = "its control group was at its limit" if kill.of_group else "the machine was out of RAM"
        return f"the kernel killed {who} for memory: {why}"
    group = outcome.group
    if group is not None and group.oom_kills:
        limit = f" of {bytes_(group.limit_bytes)}" if group.limit_bytes is not None else ""
        count = "a process" if group.oom_kills == 1 else f"{group.oom_kills} processes"
        if group.at_limit is False:
            return f"the kernel killed {count} of the training for memory, by a limit around vtune's own"
        return f"the kernel killed {count} of the training for passing its control group's limit{limit}"
    if root.signal != SIGKILL:
        return None
    who = root.who or "the training"
    if outcome.machine_oom_kills:
        count = "1 process" if outcome.machine_oom_kills == 1 else f"{outcome.machine_oom_kills} processes"
        return f"{who} was killed by SIGKILL, and the kernel killed {count} for memory on this machine meanwhile"
    if (
        available_bytes is None
        or ram_bytes is None
        or available_bytes >= max(LEAST_FREE_BYTES, ALL_BUT_FULL * ram_bytes)
    ):
        return None
    left = bytes_(available_bytes)
    return f"{who} was killed by SIGKILL when only {left} of RAM were available: most likely by the kernel"


def _bus_error(root: Root, shm_bytes: int | None, used_bytes: int | None) -> tuple[TrialStatus, str] | None:
    """Written to a shared memory that is full, or read from a mapped file that somebody has made shorter."""
    who = root.who or "the training"
    if shm_bytes is None:
        return TrialStatus.OUT_OF_SHM, f"{who} was killed by SIGBUS (bus error), as a full /dev/shm does it"
    free = shm_bytes - (used_bytes or 0)
    if free >= ROOM_FOR_A_BATCH and free >= shm_bytes / 2:
        return None
    return TrialStatus.OUT_OF_SHM, (
        f"{who} was killed by SIGBUS (bus error): /dev/shm has {bytes_(shm_bytes)}, and no room for its batches"
    )


def _line_of(words: str, position: int) -> str:
    begin = words.rfind("\n", 0, position) + 1
    end = words.find("\n", position)
    return words[begin : end if end >= 0 else None].strip()[:300]
