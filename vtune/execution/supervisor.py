"""Owns the processes of one trial: starts the training, ends all of it, leaves nothing behind, says how it ended.

A process of its own (see `command`), so that the trial dies with vtune whatever kills vtune. Orders are lines on stdin:

    term REASON             SIGTERM to the whole tree, 3 s later SIGKILL
    grace REASON SECONDS    let the training end by itself that long (it was told so by the stop file), then as term
    ask REASON SECONDS      SIGTERM to the main process alone, which may save; after that long as term
    kill REASON             SIGKILL at once

On stdout it answers, each a line:

    started PID             of the training's command
    refused ERRNO PATH      the trial's folder does not take what a trial needs: nothing runs
    outcome JSON            how it ended, where the folder does not take it

End of file on stdin means that vtune is gone. A full run (`outlives` in its spec) goes on without it: a SIGTERM to this
process asks it to end, a second one ends it at once. Standard library only, and only the part of it that loads fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

from vtune.execution import leader, overlay, ownership, shm
from vtune.execution.defects import note_defect
from vtune.execution.disk_guard import DiskGuard
from vtune.execution.locks import Locks
from vtune.execution.memory_guard import MemoryGuard
from vtune.execution.process_tree import (
    Process,
    boot_id,
    descendants,
    kill_all,
    process_of,
    processes,
    send,
    trial_processes,
)
from vtune.execution.state_files import OUTCOME, STATE, StateFiles
from vtune.execution.tmpdir import make_tmpdir, remove_tmpdir

# Type checkers take any constant of this name for true; importing the real one would load typing, 2 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, TypeVar

    T = TypeVar("T")

# Loader workers, resource trackers and torch's shm manager notice the end of their parent and clean up themselves.
STRAGGLER_GRACE_S = 1.0
TERM_GRACE_S = 3.0
# Of a full run that nobody guards any more and somebody ends by a signal to its supervisor.
ASK_GRACE_S = 120.0
# How often new segments of shared memory are looked for: their user may be gone, out of memory, at the next look.
_LOOK_S = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from vtune.execution.supervisor import main; main()"


def command(folder: Path, inject: Path) -> list[str]:
    """How to start a supervisor for the trial in this folder.

    By `-c` and not by this file's path: a script is compiled anew at every start, an imported module is not.
    """
    # The folder that holds vtune comes last on sys.path, so that nothing beside it can shadow the standard library.
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # -I ignores PYTHONUTF8; paths must be encoded as in vtune itself.
    python = [sys.executable, "-I", "-S", f"-Xutf8={sys.flags.utf8_mode}"]
    return [*python, "-c", _BOOTSTRAP, root, str(folder), str(inject), str(os.getpid())]


def main() -> None:
    folder, inject, vtune_pid = sys.argv[2:5]
    supervisor = None
    try:
        supervisor = Supervisor(folder, inject, int(vtune_pid))
        supervisor.run()
    except BaseException as error:
        _tell_refusal(error)
        # A defect of vtune: vtune sees that there is no outcome, and sweeps; here is what it was.
        note_defect(folder)
        if supervisor is not None:
            supervisor.give_up()
        sys.exit(70)


def _tell_refusal(error: BaseException) -> None:
    """To vtune itself: where the trial's folder cannot be written, nothing can be told there."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        with contextlib.suppress(OSError):
            os.write(1, f"refused {error.errno} {error.filename}\n".encode(errors="surrogateescape"))


class Supervisor:
    def __init__(self, folder: str, inject: str, vtune_pid: int) -> None:
        self._folder = folder
        with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
            self._spec: dict[str, Any] = json.load(file)
        self._token = self._spec["token"]
        self._outlives = bool(self._spec.get("outlives"))
        self._files = StateFiles(folder)
        self._locks = Locks(self._spec.get("locks") or ())
        self._segments = shm.Segments()
        self._look_due_s = 0.0
        self._leader: int | None = None
        self._status: int | None = None
        self._childless = True
        self._ended_by: str | None = None
        self._is_asked = False
        self._leave_at_s = float("inf")
        self._at_once = False
        self._orders = b""
        self._guard = MemoryGuard(folder, self._token)
        self._disk = DiskGuard(folder)
        self._known: list[Process] = []
        self._defect: str | None = None
        self._prctl = ctypes.CDLL(None).prctl
        # Orphans of the training come to this process, however often they forked and whatever session they chose.
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._events = select.poll()
        self._events.register(0, select.POLLIN)
        self._wakeup = self._listen_to_signals()
        self._vtune = None if self._outlives else self._watch_vtune(vtune_pid)
        # A full run keeps the user's: a resumed one may look for what it left there.
        self._tmpdir: str | None = None
        if not self._outlives:
            make_tmpdir(self._note_tmpdir)
        self._env = leader.environment(self._spec, folder, inject, self._tmpdir)

    def run(self) -> None:
        started_s = time.monotonic()
        self._write_state(started_s)
        if self._outlives:
            self._files.keep_room()
        self._guard.make_group()
        self._guard.get_ready()
        start_error = self._start()
        if start_error is None:
            self._guard.watch(self._pids_below, started_s)
        self._write_state(started_s)
        stragglers = 0
        if start_error is None:
            with contextlib.suppress(OSError):  # vtune is gone: the next turn will notice
                os.write(1, f"started {self._leader}\n".encode())
            stragglers = self._see_to_the_end(started_s)
        seconds = time.monotonic() - started_s
        self._whatever_happens(self._restore)
        removed = self._whatever_happens(lambda: self._segments.remove(self._folder))
        left = self._whatever_happens(self._segments.left)
        self._whatever_happens(self._remove_tmpdir)
        group = self._whatever_happens(self._end_group)
        self._whatever_happens(self._guard.remove_group)
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        outcome = {
            "ended_by": self._ended_by or "itself",
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "seconds": seconds,
            "stragglers": stragglers,
            "shm_removed": removed or (),
            "shm_left": left or (),
            "start_error": start_error,
            "held_elsewhere": self._locks.held_elsewhere,
            "group": group,
            "ram_guard": self._guard.account(),
            "over": self._guard.over or self._disk.over,
            "defect": self._defect,
        }
        try:
            self._files.write_last(OUTCOME, outcome)
        except OSError:
            # Not even the room that was kept: vtune hears it all the same, and what was measured is not lost with it.
            os.write(1, f"outcome {json.dumps(outcome)}\n".encode())
        ownership.forget(self._token)

    def _whatever_happens(self, do: Callable[[], T]) -> T | None:
        """A defect of vtune's must not hide how the trial ended."""
        try:
            return do()
        except Exception as error:
            self._defect = f"{type(error).__name__}: {error}"
            note_defect(self._folder)
            return None

    def give_up(self) -> None:
        self.kill()
        # A sweep knows of it from the state alone, which may be what could not be written.
        self._remove_tmpdir()

    def _restore(self) -> None:
        from vtune.execution.restore import restore  # here: it would delay the start of every trial

        overlay.finish(self._folder)
        restore(self._folder)

    def _remove_tmpdir(self) -> None:
        if self._tmpdir is not None:
            remove_tmpdir(self._tmpdir)

    def kill(self) -> None:
        kill_all(self._tree, lambda: self._turn(time.monotonic() + 0.02))

    def _see_to_the_end(self, started_s: float) -> int:
        """How many processes had to be stopped although the leader had ended before them."""
        while self._status is None and not self._at_once and time.monotonic() < self._leave_at_s:
            self._turn(self._leave_at_s)
            if time.monotonic() >= self._look_due_s:
                self._look_due_s = time.monotonic() + _LOOK_S
                self._whatever_happens(lambda: self._look_for_new_segments(started_s))
        if self._status is not None:
            self._wait_until_childless(STRAGGLER_GRACE_S)
        stragglers: set[int] = set()
        if not self._at_once:
            for process in self._last_look(stragglers):
                send(process, signal.SIGTERM)
                send(process, signal.SIGCONT)  # a stopped process would not notice
            # A shell that was asked has left at once: the time to save is its child's.
            left_s = self._leave_at_s - time.monotonic() if self._is_asked else 0.0
            self._wait_until_childless(max(TERM_GRACE_S, left_s))
        if self._last_look(stragglers):
            self.kill()
        self._reap()
        return len(stragglers)

    def _last_look(self, stragglers: set[int]) -> list[Process]:
        """What still lives, after its segments of shared memory were noted: the dead do not tell."""
        tree = self._tree()
        self._whatever_happens(lambda: self._claim_segments(tree))
        if self._status is not None and not self._at_once:
            stragglers.update(process.pid for process in tree)
        return tree

    # --- memory ---

    def _pids_below(self) -> list[int]:
        self._known = [process for process in descendants([os.getpid()], processes()).values() if process.living]
        return [process.pid for process in self._known]

    def _watch_memory(self) -> None:
        now_s = time.monotonic()
        if self._at_once or self._childless or now_s < self._guard.due_s:
            return
        if self._guard.look(now_s):
            # It must not grow while its segments are looked for: the dead do not tell, and the living fill memory. Nor
            # while it is listed: first those that are known already.
            for process in self._known:
                send(process, signal.SIGSTOP)
            for process in descendants([os.getpid()], processes()).values():
                send(process, signal.SIGSTOP)
            self._end_at_once("limit")

    def _end_group(self) -> Mapping[str, Any] | None:
        count = self._guard.groups_count()
        if count is not None and self._ended_by == "itself" and self._status != 0 and self._guard.was_the_wall(count):
            self._ended_by = "limit"
        return count

    # --- the training ---

    def _start(self) -> str | None:
        """Why it could not be started."""
        taken = self._locks.take() or self._locks.join(overlay.read_protection(self._folder).get("hold"))
        if taken is not None:
            return taken
        self._leader, error = leader.start(self._spec, self._folder, self._env, self._guard, self._prctl)
        self._childless = self._leader is None
        return error

    # --- events ---

    def _listen_to_signals(self) -> int:
        readable, writable = os.pipe()
        os.set_blocking(readable, False)
        os.set_blocking(writable, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(signum, lambda *_: self._be_signalled())
        # Whoever is killed while writing to us must not take us along.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._events.register(readable, select.POLLIN)
        return readable

    def _watch_vtune(self, pid: int) -> int | None:
        # The pipe alone would not tell when a process forked by vtune (a caller's worker) holds its other end.
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        if os.getppid() != pid:
            os.close(pidfd)
            self._end_at_once("parent_lost")
            return None
        self._events.register(pidfd, select.POLLIN)
        return pidfd

    def _wait_until_childless(self, seconds: float) -> None:
        # As a subreaper: no child left means no descendant left, without looking at any other process.
        until_s = time.monotonic() + seconds
        while not self._childless and not self._at_once and time.monotonic() < until_s:
            self._turn(until_s)

    def _turn(self, until_s: float) -> None:
        """Wait for something to happen, not longer than a look at the segments is due, and take it in."""
        memory_due_s = until_s if self._at_once else self._guard.due_s
        wait_s = max(0.0, min(min(until_s, memory_due_s) - time.monotonic(), _LOOK_S))
        ready = {descriptor for descriptor, _ in self._events.poll(int(wait_s * 1000) + 1)}
        if self._wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, 4096)
        self._reap()
        if 0 in ready:
            self._take_orders()
        if self._vtune is not None and self._vtune in ready:
            self._events.unregister(self._vtune)
            self._end_at_once("parent_lost")
        self._watch_memory()
        if self._status is None and not self._at_once and self._disk.is_over(time.monotonic()):
            self._end_at_once("disk")

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            self._segments.pids_seen.add(pid)
            if pid == self._leader:
                self._status = status
                self._ended_by = self._ended_by or "itself"

    def _take_orders(self) -> None:
        data = os.read(0, 4096)
        if not data:
            self._events.unregister(0)
            if not self._outlives:
                self._end_at_once("parent_lost")
            return
        *lines, self._orders = (self._orders + data).split(b"\n")
        for line in lines:
            order, reason, *seconds = line.decode().split()
            if order == "kill":
                self._end_at_once(reason)
                continue
            if order == "ask":
                self._ask()
            self._end_within(reason, float(seconds[0]) if seconds else 0.0)

    def _ask(self) -> None:
        """Once: a second SIGTERM makes many trainings leave without saving."""
        if self._is_asked or self._leader is None or self._status is not None:
            return
        self._is_asked = True
        main = process_of(self._leader)
        if main is not None:
            send(main, signal.SIGTERM)
            # A stopped process would not notice, and nobody saves while its stopped worker holds a batch.
            for process in (main, *descendants([self._leader], processes()).values()):
                send(process, signal.SIGCONT)

    def _be_signalled(self) -> None:
        if self._outlives and not self._is_asked and self._leader is not None:
            self._ask()
            self._end_within("interrupt", ASK_GRACE_S)
        else:
            self._end_at_once("interrupt")

    def _end_within(self, reason: str, seconds: float) -> None:
        # The first reason is the true one; a later order only hastens.
        self._ended_by = self._ended_by or reason
        self._leave_at_s = min(self._leave_at_s, time.monotonic() + seconds)

    def _end_at_once(self, reason: str) -> None:
        self._ended_by = self._ended_by or reason
        self._at_once = True

    # --- what is left behind ---

    def _tree(self) -> list[Process]:
        tree = trial_processes(self._token, [os.getpid()])
        self._segments.pids_seen.update(process.pid for process in tree)
        return tree

    def _look_for_new_segments(self, started_s: float) -> None:
        if self._segments.are_more() and self._claim_segments(self._tree()):
            self._write_state(started_s)

    def _claim_segments(self, tree: list[Process]) -> bool:
        return self._segments.claim([process.pid for process in tree])

    def _note_tmpdir(self, path: str) -> None:
        self._tmpdir = path
        self._record_ownership()

    def _write_state(self, started_s: float) -> None:
        # For `vtune watch` and for people.
        self._files.write(STATE, {**self._record_ownership(), "started_s": started_s})

    def _record_ownership(self) -> Mapping[str, Any]:
        """All that a sweep may end and remove when this process is killed: it believes no file of the study."""
        me = process_of(os.getpid())
        state = {
            "supervisor_pid": os.getpid(),
            "supervisor_started_ticks": me.started_ticks if me else None,
            "leader_pid": self._leader,
            "tmpdir": self._tmpdir,
            "group": self._guard.group_path,
            "boot_id": boot_id(),
        }
        segments = {"shm_before": sorted(self._segments.before), "shm_ours": sorted(self._segments.ours)}
        ownership.record(self._token, {**state, **segments, "folder": self._folder})
        return state
