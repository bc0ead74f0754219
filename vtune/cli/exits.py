"""Exit codes, and errors as people and programs read them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from typing import Any

from vtune.domain.record import TrialRecord
from vtune.domain.secrets import masked_json, secrets_in
from vtune.domain.trial import TrialStatus
from vtune.errors import StorageError
from vtune.journal.records import record_to_json
from vtune.reporting.inert import harmless

DONE, SAID_NO, USAGE, MACHINE, NOT_FEASIBLE, TRAINING_FAILED, DEFECT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130

MAKE_ROOM_FOR_OUTPUT = "make room where the output goes: nothing else is lost"

OVER_A_LIMIT = (TrialStatus.OUT_OF_VRAM, TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM, TrialStatus.REFUSED)


def exit_code_of(status: TrialStatus, *, over: bool = False) -> int:
    """Of a command that ran one trial. `over`: it ended well, and took or will take more than a limit allows."""
    if status is TrialStatus.COMPLETED:
        return NOT_FEASIBLE if over else DONE
    if status is TrialStatus.INTERRUPTED:
        return INTERRUPTED
    return NOT_FEASIBLE if status in OVER_A_LIMIT else TRAINING_FAILED


def exit_code_of_trial(record: TrialRecord, *, over: bool = False) -> int:
    return exit_code_of(record.status, over=over) if not record.filled_its_disk else NOT_FEASIBLE


def report_error(message: str, hint: str, exit_code: int, *, as_json: bool) -> int:
    if as_json:
        try:
            print_json({"error": message, "hint": hint, "exit_code": exit_code})
            return exit_code
        except OSError:
            give_up_stdout()
    print(f"error: {_inert(message)}\n\nhint: {_inert(hint)}", file=sys.stderr)
    return exit_code


def _inert(text: str) -> str:
    """An error may quote what a training printed."""
    return "\n".join(harmless(line, max(1, len(line))) for line in text.split("\n"))


def give_up_stdout() -> None:
    """Whoever reads it left, or its disk is full: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_unsaved(error: StorageError, *, as_json: bool) -> int:
    """The measurement is shown all the same: it took minutes, and the disk did not take it. With --json on stderr, as
    stdout holds the error alone."""
    record = record_to_json(error.record) if isinstance(error.record, TrialRecord) else None
    if record is not None:
        print(as_text({"trial": record}), file=sys.stderr if as_json else sys.stdout)
    return report_error(error.message, error.hint, error.exit_code, as_json=as_json)


def report_defect(error: BaseException, *, as_json: bool) -> int:
    """A traceback is for whoever mends vtune: it goes to a file, its address to the user."""
    message = f"a defect of vtune: {type(error).__name__}: {error}"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="vtune-defect-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            traceback.print_exception(error, file=file)
        hint = f"please report it with the traceback in {file.name}"
    except OSError as full:
        place = traceback.extract_tb(error.__traceback__)[-1:]
        where = f"{place[0].filename}:{place[0].lineno}" if place else "an unknown line"
        hint = f"please report it with its place, {where}; its traceback could not be kept: {full.strerror}"
    return report_error(message, hint, DEFECT, as_json=as_json)


def say_interrupted(what_is_kept: str, command: str) -> None:
    print(f"interrupted: {what_is_kept}; to go on: {command}", file=sys.stderr)


def print_json(value: Any) -> None:
    print(as_text(value), flush=True)


def as_text(value: Any) -> str:
    return json.dumps(masked_json(value, secrets_in(os.environ)), indent=1, allow_nan=False)
