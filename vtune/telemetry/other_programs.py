"""Who else uses the cores: the processor time of every process that is not ours, between two readings of /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.domain.others import OtherProgram
from vtune.telemetry.cores import allowed_cores
from vtune.telemetry.machine_load import MachineLoad
from vtune.telemetry.proc_files import ProcFiles
from vtune.telemetry.proc_text import PROC
from vtune.telemetry.processes import TICK_S, Processes

# For tests that run beside each other, and for machines whose counters mislead. Every record made with it says so.
VARIABLE, IGNORE = "VTUNE_OTHER_PROGRAMS", "ignore"
# A process that uses less is not worth a name.
LEAST_NAMED_CORES = 0.05
# More names than these help nobody.
MOST_NAMED = 8
MOST_LETTERS = 60
INTERPRETERS = ("python", "pypy")
# Options of the interpreter that take a word: a module, a warning's action, a switch of the implementation.
TAKE_A_WORD = "mWX"
# The kernel's own threads descend from process 2. What they do is done for somebody: for a training that reads from an
# encrypted or a network disk, it is the training's own work, and nobody could stop them.
KERNEL_THREADS = 2
# Of the fields behind the name in /proc/PID/stat: see proc(5).
_PPID, _USER, _SYSTEM, _STARTED, _LAST_CORE = 1, 11, 12, 19, 36


def are_ignored() -> bool:
    return os.environ.get(VARIABLE) == IGNORE


@dataclass(frozen=True, slots=True)
class _Seen:
    ppid: int
    name: str
    cpu_s: float
    last_core: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Over the time between two looks."""

    programs: tuple[OtherProgram, ...]
    # Cores that the kernel's own threads kept busy.
    kernel_cores: float


class OtherPrograms:
    """Reads every process: some 10 µs each. So it looks only when somebody is known to use the cores."""

    def __init__(self, proc: Path = PROC, allowed: frozenset[int] | None = None) -> None:
        self._proc = str(proc)
        self._allowed = allowed_cores() if allowed is None else allowed
        self._all_allowed = len(self._allowed) >= (os.cpu_count() or 1)
        self._before: Mapping[tuple[int, int], _Seen] = {}
        self._looked_s: float | None = None

    def look(self, now_s: float, ours: Collection[int]) -> Used | None:
        """Since the look before; None at the first. `ours`: processes whose descendants are ours as well."""
        before, then_s = self._before, self._looked_s
        self._before, self._looked_s = self._read(), now_s
        if then_s is None or now_s <= then_s:
            return None
        own = _descendants(ours, {pid: seen.ppid for (pid, _), seen in self._before.items()})
        programs, kernel = list[OtherProgram](), 0.0
        for (pid, started), seen in self._before.items():
            known = before.get((pid, started))
            # A new process has used what it used since then.
            cores = (seen.cpu_s - (known.cpu_s if known is not None else 0.0)) / (now_s - then_s)
            if KERNEL_THREADS in (pid, seen.ppid):
                kernel += cores
            elif pid not in own and cores >= LEAST_NAMED_CORES and self._on_our_cores(seen):
                programs.append(OtherProgram(pid=pid, name=seen.name, cores=cores))
        programs.sort(key=lambda program: -program.cores)
        named = [replace(program, name=self._name(program)) for program in programs[:MOST_NAMED]]
        return Used(programs=tuple(named), kernel_cores=kernel)

    def _name(self, program: OtherProgram) -> str:
        """By its script: nearly every training is called `python`."""
        try:
            with open(f"{self._proc}/{program.pid}/cmdline", "rb", buffering=0) as file:
                command = file.read(4096).decode("utf-8", errors="replace").split("\0")
        except OSError:  # it has ended meanwhile, or is not ours to read
            return program.name
        script = script_of(command)
        return program.name if script is None else f"python {_inert(script[:MOST_LETTERS])}"

    def _on_our_cores(self, seen: _Seen) -> bool:
        return self._all_allowed or seen.last_core is None or seen.last_core in self._allowed

    def _read(self) -> dict[tuple[int, int], _Seen]:
        """By process and start time: a number may be given to a later process."""
        table = {}
        for name in os.listdir(self._proc):
            if name.isdigit() and (found := self._process(name)) is not None:
                started, seen = found
                table[int(name), started] = seen
        return table

    def _process(self, pid: str) -> tuple[int, _Seen] | None:
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:
                line = file.read(4096)
        except OSError:  # it has ended meanwhile
            return None
        # The name stands in parentheses and may itself hold spaces and parentheses.
        opened, closed = line.find(b"("), line.rfind(b")")
        fields = line[closed + 2 :].split()
        if len(fields) <= _STARTED:
            return None
        cpu_s = (int(fields[_USER]) + int(fields[_SYSTEM])) * TICK_S
        core = int(fields[_LAST_CORE]) if len(fields) > _LAST_CORE else None
        name = _inert(line[opened + 1 : closed].decode("utf-8", errors="replace"))
        return int(fields[_STARTED]), _Seen(int(fields[_PPID]), name, cpu_s, core)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Cores that others kept busy over a moment, and who."""

    others_cores: float | None
    programs: tuple[OtherProgram, ...]


def load_now(
    over_s: float,
    *,
    proc: Path = PROC,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Load:
    """Before a trial: whatever is not this process, nor below it."""
    files, own = ProcFiles(proc), os.getpid()
    processes, load, who = Processes(files), MachineLoad(files, proc), OtherPrograms(proc)
    load.others_cores(clock(), processes.stats([own]).values())
    who.look(clock(), (own,))
    sleep(over_s)
    others = load.others_cores(clock(), processes.stats([own]).values())
    used = who.look(clock(), (own,))
    if others is not None and used is not None:
        others = max(0.0, others - used.kernel_cores)
    return Load(others_cores=others, programs=used.programs if used is not None else ())


def script_of(command: Sequence[str]) -> str | None:
    """The script of a Python program, without its folder, or `-m` and its module. No other word of another's command is
    told: any of them may be a secret."""
    if not os.path.basename(command[0]).startswith(INTERPRETERS):
        return None
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-"):
            return os.path.basename(word) if word.endswith(".py") else None
        if word == "-":  # a script from standard input
            return None
        for at, letter in enumerate(word[1:] if not word.startswith("--") else "", start=2):
            # Letters without a value may stand together: -um module.
            if letter == "c":
                return None
            if letter in TAKE_A_WORD:
                value = word[at:] or next(words, "")
                if letter == "m":
                    return f"-m {value}" if value else None
                break
    return None


def _inert(text: str) -> str:
    """A process chooses its own name: an error holds nothing that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _descendants(roots: Collection[int], parents: Mapping[int, int]) -> set[int]:
    """The roots themselves among them."""
    children: dict[int, list[int]] = {}
    for pid, ppid in parents.items():
        children.setdefault(ppid, []).append(pid)
    found, left = set(roots), list(roots)
    while left:
        below = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(below)
        left += below
    return found
