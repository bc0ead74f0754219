"""Linear algebra on one core: vtune's matrices are small, and the training beside it wants the others.

OpenBLAS shares each out among all cores and waits for the last one: on a machine that is busy a Cholesky factor of 200
rows then takes 0.15 s instead of 1 ms. By the library's own switch, for an environment variable would reach the
trainings that vtune starts.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

# As numpy's and scipy's wheels bring it, and as systems do.
_PREFIXES, _SUFFIXES = ("scipy_openblas", "openblas"), ("64_", "")


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Whatever library that is not known stays as it is; afterwards all are as they were."""
    # Its import loads the libraries.
    import scipy.linalg  # noqa: F401

    before = [(use, threads()) for threads, use in map(_switch, _libraries()) if threads is not None]
    for use, _ in before:
        use(1)
    try:
        yield
    finally:
        for use, count in before:
            use(count)


def _libraries() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return sorted({line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line})
    except (OSError, IndexError):
        return []


def _switch(path: str) -> tuple[Callable[[], int] | None, Callable[[int], None]]:
    with contextlib.suppress(OSError):
        library = ctypes.CDLL(path)
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                if hasattr(library, f"{prefix}_set_num_threads{suffix}"):
                    return (
                        getattr(library, f"{prefix}_get_num_threads{suffix}"),
                        getattr(library, f"{prefix}_set_num_threads{suffix}"),
                    )
    return None, lambda count: None
