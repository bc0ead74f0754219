"""A whole copy of a file's content: shared blocks where the file system has them, holes left as holes."""

from __future__ import annotations

import errno
import os

# linux/fs.h, _IOW(0x94, 9, int)
_FICLONE = 0x40049409
_PIECE = 2**26
_PIECE_IN_MEMORY = 2**20
# By these a file system says that it has no such call, or that it does not have it between these two files.
_CANNOT = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY, errno.EBADF)


def copy_content(source: int, target: int, size: int) -> None:
    """Between two descriptors; the target is empty."""
    if _is_shared(source, target):
        return
    os.ftruncate(target, size)
    position = 0
    while position < size:
        begin, end = _data_from(source, position, size)
        _copy_range(source, target, begin, end)
        position = end


def _is_shared(source: int, target: int) -> bool:
    try:
        import fcntl

        fcntl.ioctl(target, _FICLONE, source)
    except (OSError, ImportError):
        return False
    return True


def _data_from(source: int, position: int, size: int) -> tuple[int, int]:
    """The next stretch that is no hole; an empty one at the end when there is none."""
    try:
        begin = os.lseek(source, position, os.SEEK_DATA)
        return begin, os.lseek(source, begin, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def _copy_range(source: int, target: int, begin: int, end: int) -> None:
    in_kernel = True
    while begin < end:
        copied = 0
        if in_kernel:
            try:
                copied = os.copy_file_range(source, target, min(end - begin, _PIECE), begin, begin)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
            # Some file systems copy nothing and call it a success.
            in_kernel = copied > 0
        if not copied:
            piece = os.pread(source, min(end - begin, _PIECE_IN_MEMORY), begin)
            if not piece:
                return
            copied = os.pwrite(target, piece, begin)
        begin += copied
