"""A neighbour that keeps every core busy for some seconds, and then none for some more. Ends with its parent."""

import ctypes
import multiprocessing
import os
import signal
import time

BUSY_S, IDLE_S = 5.0, 9.0
SET_PDEATHSIG = 1


def work(begun: float) -> None:
    die_with_parent()
    while True:
        in_turn = (time.monotonic() - begun) % (BUSY_S + IDLE_S)
        if in_turn > BUSY_S:
            time.sleep(BUSY_S + IDLE_S - in_turn)
        else:
            sum(range(10_000))


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    if os.getppid() == 1:
        return
    begun = time.monotonic()
    cores = len(os.sched_getaffinity(0))
    for _ in range(2 * cores - 1):
        multiprocessing.get_context("fork").Process(target=work, args=(begun,), daemon=True).start()
    work(begun)


if __name__ == "__main__":
    main()
