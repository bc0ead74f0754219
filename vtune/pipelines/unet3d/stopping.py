"""What SIGTERM and Ctrl-C do. A scheduler takes the machine away, and should not take the work since the last
checkpoint; whoever presses Ctrl-C wants to get away, and to know what is left.

Standard library only: it is there before PyTorch is imported.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def ctrl_c_words(saved: str | None) -> str:
    return f"stopped by Ctrl-C; {saved_words(saved)}\n"


def saved_words(saved: str | None) -> str:
    """`saved`: the place in the training that the last checkpoint has."""
    return f"the last checkpoint is that of {saved}: go on with --resume" if saved else "nothing was saved yet"


def end_quietly_at_ctrl_c() -> None:
    """While imports go on, which take seconds: nothing is to be unwound, and their traceback tells nobody anything."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def unwind_at_ctrl_c() -> None:
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, ctrl_c_words(None).encode())
    os._exit(128 + number)


class StopRequest:
    """The first SIGTERM is remembered until the step is done and saved; a second one ends the training where it is.

    Before there is anything to save, the first one does. Ended by an exception, so that the loader's workers are
    stopped on the way out.
    """

    def __init__(self) -> None:
        self.asked = False
        self.can_wait = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked or not self.can_wait:
            sys.exit(128 + number)
        self.asked = True


def batches_of(loader: Iterable[T]) -> Iterator[T]:
    """And the end of the loader's workers wherever the loop over them ends early. PyTorch ends them when its iterator
    is freed, but an error that came out of a worker keeps it in a circle of references."""
    batches = iter(loader)
    try:
        yield from batches
    except BaseException:
        end_workers = getattr(batches, "_shutdown_workers", None)
        if end_workers is not None:
            end_workers()
        raise


def outlast_first_sigterm(worker: int) -> None:
    """In each of the loader's workers: a scheduler's SIGTERM goes to them as well, and the step that is to be finished
    needs its samples. Whoever insists sends a second one; and the training's own process, when it ends, the only one.

    By a thread, since a handler in Python is not told who sent the signal.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_outlast_one, args=(os.getppid(),), name="outlasts SIGTERM", daemon=True).start()


def _outlast_one(training: int) -> None:
    sent = signal.sigwaitinfo({signal.SIGTERM})
    if sent.si_pid == training:
        # As PyTorch's own handler does it. The training waits for this worker and for nothing of it.
        os._exit(0)
    # From here on it is PyTorch's handler that is called, in this thread, as it would have been without all this.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while True:
        signal.pause()
