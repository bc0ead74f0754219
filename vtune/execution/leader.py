"""The training's main process: how it is made of a fork of the supervisor, and what it finds around it.

Loaded by the supervisor, like process_tree.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping

from vtune.execution.memory_guard import MemoryGuard
from vtune.execution.overlay import enter, read_protection
from vtune.execution.process_tree import TOKEN_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Set in a full run, and only there: the hooks then count and do not record.
LAUNCH_VARIABLE = "VTUNE_LAUNCH"
_PR_SET_PDEATHSIG = 1
# What a process writes that could not join the trial's memory group, before it becomes the training all the same.
_NOT_JOINED = b"\1"


def environment(spec: Mapping[str, Any], folder: str, inject: str, tmpdir: str | None) -> dict[str, str]:
    env: dict[str, str] = {**os.environ, **spec["env"]}
    env["VTUNE_TRIAL"] = os.path.abspath(folder)
    env[TOKEN_VARIABLE] = spec["token"]
    # A trial may be started from within a full run.
    env.pop(LAUNCH_VARIABLE, None)
    if spec.get("outlives"):
        env[LAUNCH_VARIABLE] = "1"
    if tmpdir is not None:
        env["TMPDIR"] = tmpdir
    # An empty part would mean the current folder.
    env["PYTHONPATH"] = os.pathsep.join(part for part in (inject, env.get("PYTHONPATH")) if part)
    return env


def start(
    spec: Mapping[str, Any],
    folder: str,
    env: Mapping[str, str],
    guard: MemoryGuard,
    prctl: Callable[[int, int, int, int, int], int],
) -> tuple[int | None, str | None]:
    """Its pid; or why it could not be started, in the operating system's words."""
    supervisor = os.getpid()
    error, report = os.pipe()  # closed by a successful exec
    leader = os.fork()
    if leader == 0:
        _become_the_training(spec, folder, env, guard, prctl, supervisor, report)
    os.close(report)
    with os.fdopen(error, "rb") as file:
        words = file.read()
    if words.startswith(_NOT_JOINED):
        guard.do_without_group()
        words = words[len(_NOT_JOINED) :]
    if words:
        os.waitpid(leader, 0)
        return None, words.decode("utf-8", errors="replace")
    return leader, None


def _become_the_training(
    spec: Mapping[str, Any],
    folder: str,
    env: Mapping[str, str],
    guard: MemoryGuard,
    prctl: Callable[[int, int, int, int, int], int],
    supervisor: int,
    report: int,
) -> NoReturn:
    what = ""
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before the line above
            os._exit(1)
        for signum in range(1, signal.NSIG):
            # What vtune or nohup ignores would be ignored by the training as well.
            with contextlib.suppress(OSError, ValueError):
                signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if not spec.get("outlives"):
            # When memory runs out, the kernel shall take the trial and not vtune. Of a full run it judges as of any.
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")
        try:
            guard.join_group()
        except OSError:
            os.write(report, _NOT_JOINED)
        what = os.devnull
        os.dup2(os.open(what, os.O_RDONLY), 0)
        for descriptor, name in ((1, "stdout.log"), (2, "stderr.log")):
            what = os.path.join(folder, name)
            os.dup2(os.open(what, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), descriptor)
        # All above 2 is closed by the exec: vtune handed nothing down, and Python opens nothing inheritable.
        protection = read_protection(folder)
        if protection.get("by") == "overlay":
            what = ""
            enter(protection, folder)
            # The kernel may forget it with a change of credentials.
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != supervisor:
                os._exit(1)
        what = spec["cwd"]
        os.chdir(what)
        what = spec["command"][0]
        os.execvpe(what, spec["command"], env)
    except OSError as error:
        os.write(report, f"{what or error.filename}: {error.strerror}".encode("utf-8", errors="replace"))
    except BaseException as error:  # a NUL in an argument, an empty command
        os.write(report, f"{what}: {error}".encode("utf-8", errors="replace"))
    os._exit(127)
