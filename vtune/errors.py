"""What stops vtune itself: a message, a hint, an exit code."""

from __future__ import annotations


class VtuneError(Exception):
    """Shown as `error: message`, a blank line, `hint: …`; never as a traceback. There is no error without a hint."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(VtuneError):
    """A wrong argument, config or path: nothing was started, nothing was written."""

    exit_code = 2


class StorageError(VtuneError):
    """The disk does not take what has to be kept; what was measured comes along as far as known."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str, record: object = None) -> None:
        super().__init__(message, hint=hint)
        self.record = record


class MachineError(VtuneError):
    """This machine cannot do what was asked; the message says what is missing."""

    exit_code = 3
