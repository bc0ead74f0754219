"""Renaming a folder that existed before the trial, where the overlay of a trial cannot.

Without root an overlay refuses it (EXDEV), and the training would end by an error that it does not have by itself.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def begin() -> None:
    for name in ("rename", "replace"):
        setattr(os, name, _carrying_over(getattr(os, name)))


def _carrying_over(original: Callable[..., None]) -> Callable[..., None]:
    def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        try:
            original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        except OSError as error:
            by_descriptor = src_dir_fd is not None or dst_dir_fd is not None
            if error.errno != errno.EXDEV or by_descriptor or os.path.islink(src) or not os.path.isdir(src):
                raise
            try:
                is_real = os.stat(src).st_dev != os.stat(os.path.dirname(os.path.abspath(dst))).st_dev
            except OSError:
                raise error from None
            if is_real:  # two file systems: it fails without vtune, too
                raise
            _copy_and_remove(src, dst)

    rename.__name__ = rename.__qualname__ = original.__name__
    rename.__doc__ = original.__doc__
    return rename


def _copy_and_remove(src: Any, dst: Any) -> None:
    import shutil

    # The kernel takes an empty folder as the target, and nothing else.
    if os.path.lexists(dst):
        os.rmdir(dst)
    shutil.copytree(src, dst, symlinks=True)
    shutil.rmtree(src)
