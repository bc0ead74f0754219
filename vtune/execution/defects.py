"""Where the supervisor writes down a defect of vtune's: it has no screen, and the trial's end is told first."""

from __future__ import annotations

import contextlib
import os

# Written after a defect only.
LOG = "supervisor.log"


def note_defect(folder: str) -> None:
    """What is being handled, once: a defect that comes again with every look would fill the disk."""
    import traceback  # here: it would delay the start of every trial

    said = traceback.format_exc()
    with contextlib.suppress(OSError), open(os.path.join(folder, LOG), "a+", encoding="utf-8") as file:
        file.seek(0)
        if said not in file.read():
            file.write(said)
