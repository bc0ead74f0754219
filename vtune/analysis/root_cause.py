"""What failed first, and in which process: the rank, the loader worker or the training itself; in its own words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.domain.events import Fact
from vtune.domain.trial import TrialOutcome

# Linux's numbers on every architecture that torch runs on; analysis asks no operating system.
SIGNAL_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}
SIGKILL, SIGBUS, SIGTERM = 9, 7, 15
# As the C library names them, which is how torch tells of a worker.
SIGNAL_WORDS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "Segmentation fault": 11,
    "Terminated": 15,
}
SHELLS_OFFSET = 128
MOST_CHARS = 300

WORKER_KILLED = re.compile(r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: (?P<signal>[A-Za-z ]+)\.")
WORKERS_GONE = re.compile(r"DataLoader worker \(pid\(s\) (?P<pids>[\d, ]+)\) exited unexpectedly")
WORKER_RAISED = re.compile(
    r"Caught (?P<type>\S+) in DataLoader worker process (?P<worker>\d+)\.\s*\n(?:\s*Original )?(?P<traceback>.*)",
    re.DOTALL,
)
# The last block of torchrun's summary is the failure that it observed first.
TORCHRUN = re.compile(
    r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)
SPAWN_SIGNAL = re.compile(r"[Pp]rocess (?P<rank>\d+) terminated with signal (?P<signal>SIG[A-Z]+)")
SPAWN_CODE = re.compile(r"[Pp]rocess (?P<rank>\d+) terminated with exit code (?P<code>\d+)")
SPAWN_RAISED = re.compile(
    r"-- Process (?P<rank>\d+) terminated with the following error:\n(?P<traceback>.*)", re.DOTALL
)
PLACE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>[^\n]+)$', re.MULTILINE)
IN_A_THREAD = re.compile(r"^Exception in thread (?P<name>[^\n]*?):?\s*\n(?P<traceback>.*)", re.MULTILINE | re.DOTALL)
ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)\b[^\n]*$", re.MULTILINE)
# Python's own words between the blocks of a chained traceback.
CAUSED = "The above exception was the direct cause of the following exception:"
DURING = "During handling of the above exception, another exception occurred:"
CHAINED = re.compile(rf"\n\s*\n\s*({re.escape(CAUSED)}|{re.escape(DURING)})\s*\n\s*\n(?=\s*Traceback )")
# A peer that is gone is what the other ranks die of.
OF_A_PEER = re.compile(r"(?i)connection (?:closed|reset|refused)|broken pipe|peer|DistBackendError|ChildFailedError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that a process ended with, as Python kept it."""

    pid: int
    rank: int | None
    t_s: float
    type: str
    text: str
    where: str | None
    # Its children that did not end well: pid and exit code.
    lost: tuple[tuple[int, int], ...] = ()

    @property
    def line(self) -> str:
        return _with_its_list(f"{self.type}: {self.text}") if self.text.strip() else self.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    # "loader worker 1 (pid 77)", "rank 1"; None: the training's own process.
    who: str | None
    pid: int | None
    signal: int | None
    # Its error, or the last of its words; empty where it said nothing.
    error: str
    where: str | None = None
    # It left with this, of its own accord as far as is known.
    exit_code: int | None = None

    @property
    def is_error(self) -> bool:
        """It is known which error ended it: what else was said is not the cause."""
        return self.where is not None or (
            (line := ERROR_LINE.match(self.error)) is not None and "Warning" not in line[0].partition(":")[0]
        )

    def sentence(self) -> str:
        place = f" ({self.where})" if self.where else ""
        if self.signal is not None and self.who is not None:
            return f"{self.who} was killed by {signal_name(self.signal)}"
        if self.who is None:
            return f"{self.error}{place}" if self.error else ""
        if self.error:
            return f"{self.who} failed first: {self.error}{place}"
        left = f"with exit code {self.exit_code}" if self.exit_code is not None else "without a word"
        return f"{self.who} ended first, {left}"


def failures_of(facts: Sequence[Fact]) -> tuple[Failure, ...]:
    ranks = {fact.pid: fact.data.get("rank") for fact in facts if fact.name == "hello"}
    found = [
        Failure(
            pid=fact.pid,
            rank=rank if isinstance(rank := ranks.get(fact.pid), int) else None,
            t_s=fact.t_s,
            type=str(fact.data.get("type")),
            text=str(fact.data.get("text") or ""),
            where=short_place(fact.data.get("where")),
            lost=tuple((int(pid), int(code)) for pid, code in fact.data.get("lost") or ()),
        )
        for fact in facts
        if fact.name == "failed"
    ]
    return tuple(sorted(found, key=lambda failure: failure.t_s))


def worker_slots(facts: Sequence[Fact]) -> dict[int, int]:
    """Loader workers by pid, with the number that torch gave each."""
    return {
        pid: slot
        for fact in facts
        if fact.name == "pass"
        for slot, pid in enumerate(fact.data.get("worker_pids") or ())
        if isinstance(pid, int)
    }


def root_of(
    outcome: TrialOutcome,
    words: str,
    failures: Sequence[Failure] = (),
    workers: Mapping[int, int] | None = None,
    ranks: Sequence[int] = (),
) -> Root:
    workers = workers or {}
    root = (
        _of_a_rank(words, failures, workers)
        or _of_a_worker(words, workers, _pids_told(failures, workers))
        or _of_first_failure(failures, workers, ranks)
        or Root(who=None, pid=None, signal=signal_of(outcome), error=last_line(words))
    )
    if root.pid in workers and root.signal is None and root.exit_code is None and not root.error:
        codes = [code for failure in failures for pid, code in failure.lost if pid == root.pid]
        if codes:
            code = codes[0]
            return replace(root, signal=-code) if code < 0 else replace(root, exit_code=code)
    return root


def _pids_told(failures: Sequence[Failure], workers: Mapping[int, int]) -> set[int] | None:
    """Processes that words may blame; None where nothing is known but the words."""
    if not failures:
        return {*workers} or None
    return {*workers, *(int(number) for failure in failures for number in re.findall(r"\d+", failure.text))}


def signal_of(outcome: TrialOutcome) -> int | None:
    """A shell between vtune and the training tells a signal as an exit code."""
    if outcome.signal is not None:
        return outcome.signal
    code = outcome.exit_code
    if code is not None and code - SHELLS_OFFSET in SIGNAL_NAMES:
        return code - SHELLS_OFFSET
    return None


def signal_name(signum: int) -> str:
    return SIGNAL_NAMES.get(signum, f"signal {signum}")


def failed_thread(words: str) -> str | None:
    """The error that a thread of the training ended with, which ends nothing else."""
    found = [*IN_A_THREAD.finditer(words)]
    if not found:
        return None
    errors = ERROR_LINE.findall(found[-1]["traceback"])
    return f"thread {found[-1]['name']} ended with {errors[0] if errors else 'an error'}"[:MOST_CHARS]


def short_place(where: object) -> str | None:
    """The file's own name: the journal has no use for the path to it."""
    return str(where).rpartition("/")[2] if where else None


def last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:MOST_CHARS] if lines else ""


def _of_a_worker(words: str, workers: Mapping[int, int], blamable: Collection[int] | None = None) -> Root | None:
    """Words may also quote an earlier run, whose processes are not `blamable`."""
    # The cause stands above "exited unexpectedly", which is torch's second error about the same worker.
    all_killed = WORKER_KILLED.finditer(words)
    if killed := next((one for one in all_killed if blamable is None or int(one["pid"]) in blamable), None):
        pid = int(killed["pid"])
        return Root(
            who=_worker(pid, workers), pid=pid, signal=SIGNAL_WORDS.get(killed["signal"].strip()), error=killed[0]
        )
    if raised := [*WORKER_RAISED.finditer(words)]:
        return _raised(f"loader worker {raised[-1]['worker']}", None, raised[-1]["traceback"])
    if gone := WORKERS_GONE.search(words):
        pids = [int(pid) for pid in gone["pids"].split(",")]
        if blamable is not None and pids[0] not in blamable:
            return None
        return Root(who=_worker(pids[0], workers), pid=pids[0], signal=None, error="")
    return None


def _of_a_rank(words: str, failures: Sequence[Failure], workers: Mapping[int, int]) -> Root | None:
    if summary := [*TORCHRUN.finditer(words)]:
        # SIGTERM is how torchrun itself ends the others.
        killed = [one for one in summary if int(one["code"]) < 0 and int(one["code"]) != -SIGTERM]
        first = summary[-1]
        told = next((one for one in failures if one.pid == int(first["pid"])), None)
        if killed and int(first["code"]) >= 0 and (told is None or OF_A_PEER.search(told.text)):
            first, told = killed[0], None
        code, pid, who = int(first["code"]), int(first["pid"]), f"rank {first['rank']}"
        if told is not None:
            inner = _of_a_worker(told.text, workers)
            if inner is not None:
                return Root(
                    who=f"{inner.who} of {who}",
                    pid=inner.pid,
                    signal=inner.signal,
                    error=inner.error,
                    where=inner.where,
                )
        if code < 0:
            return Root(who=f"{who} (pid {pid})", pid=pid, signal=-code, error="")
        error = told.line if told is not None else _error_of_rank(words, int(first["rank"]))
        if told is not None and OF_A_PEER.search(told.text):
            # Whoever it lost stands in no summary: a rank that left with exit code 0.
            error = f"it lost a rank that had ended without an error ({error})"
        where = told.where if told is not None else None
        return Root(who=who, pid=pid, signal=None, error=error, where=where, exit_code=code)
    if found := SPAWN_SIGNAL.search(words):
        number = next((n for n, name in SIGNAL_NAMES.items() if name == found["signal"]), None)
        return Root(who=f"process {found['rank']}", pid=None, signal=number, error="")
    if raised := SPAWN_RAISED.search(words):
        return _raised(f"process {raised['rank']}", None, raised["traceback"])
    if left := SPAWN_CODE.search(words):
        return Root(who=f"process {left['rank']}", pid=None, signal=None, error="", exit_code=int(left["code"]))
    return None


def _of_first_failure(failures: Sequence[Failure], workers: Mapping[int, int], ranks: Sequence[int]) -> Root | None:
    """Ranks and launchers that end because another one did, end later. A process beside them may have failed long
    before, and nobody minded."""
    if not failures:
        return None
    first = next((one for one in failures if one.pid in ranks or one.rank is not None), failures[0])
    inner = _of_a_worker(f"{first.type}: {first.text}", workers)
    if inner is not None:
        return inner
    for pid, code in first.lost:
        # What the training says of a batch that never came is a consequence.
        if code < 0 and pid in workers:
            return Root(who=_worker(pid, workers), pid=pid, signal=-code, error="")
    several = len({failure.rank for failure in failures}) > 1
    who = f"rank {first.rank}" if first.rank is not None and several else None
    return Root(who=who, pid=first.pid, signal=None, error=first.line[:MOST_CHARS], where=first.where)


def _raised(who: str, pid: int | None, traceback: str) -> Root:
    own = _cause_of(traceback)
    errors = [*ERROR_LINE.finditer(own)]
    places = [place for place in PLACE.finditer(own) if not is_library(place["file"])]
    where = None
    if places:
        where = f"{short_place(places[-1]['file'])}:{places[-1]['line']} in {places[-1]['function'].strip()}"
    return Root(
        who=who,
        pid=pid,
        signal=None,
        error=(_with_its_list(own[errors[-1].start() :]) if errors else last_line(own))[:MOST_CHARS],
        where=where,
    )


def _cause_of(traceback: str) -> str:
    """Of a chained traceback the block that tells the cause: the last one, or the one that it names as its cause.
    Whatever follows the chain is about the process that was told of it."""
    parts = CHAINED.split(traceback.strip("\n"))
    at = len(parts) - 1
    while at and parts[at - 1] == CAUSED:
        at -= 2
    return re.split(r"\n\s*\n", parts[at].strip("\n"), maxsplit=1)[0]


def _with_its_list(text: str) -> str:
    """The first line of an error, and where that ends with a colon also what it announces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = lines[:1]
    for line in lines[1:]:
        if not told[-1].endswith(":"):
            break
        told.append(line)
    return " ".join(told)


def is_library(file: str) -> bool:
    return file.startswith("<frozen ") or any(
        part in file for part in ("/site-packages/", "/dist-packages/", "/lib/python3", "/_vtune_hooks/")
    )


def _worker(pid: int, workers: Mapping[int, int]) -> str:
    slot = workers.get(pid)
    return f"loader worker {slot} (pid {pid})" if slot is not None else f"a loader worker (pid {pid})"


def _error_of_rank(words: str, rank: int) -> str:
    """torch marks the lines of a rank's traceback where the ranks had found each other."""
    mark = f"[rank{rank}]: "
    own = "\n".join(line[len(mark) :] for line in words.splitlines() if line.startswith(mark))
    errors = [*ERROR_LINE.finditer(own)]
    return _with_its_list(own[errors[-1].start() :])[:MOST_CHARS] if errors else ""
