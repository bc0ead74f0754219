"""What SIGTERM does: a scheduler takes the machine away, and should not take the work since the last checkpoint."""

import signal
import sys
from types import FrameType


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


def outlast_first_sigterm(worker: int) -> None:
    """In each of the loader's workers: a scheduler's SIGTERM goes to them as well, and the step that is to be finished
    needs its samples. They end with the loader then; whoever insists sends a second one."""
    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, signal.SIG_DFL))
