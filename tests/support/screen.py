"""What a terminal shows in the end of what was written to it."""

from __future__ import annotations

import re


def as_it_stands(written: str) -> str:
    """Rows that were drawn over are gone."""
    rows, at, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[\n\r]|[^\x1b\n\r]+", written):
        if part == "\n":
            at, column = at + 1, 0
            rows += [""] * (at == len(rows))
        elif part == "\r":
            column = 0
        elif (up := re.fullmatch(r"\x1b\[(\d+)A", part)) is not None:
            at = max(0, at - int(up[1]))
        elif part == "\x1b[K":
            rows[at] = rows[at][:column]
        elif part == "\x1b[J":
            rows[at:] = [rows[at][:column]]
        elif part == "\x1b[2K":
            rows[at] = ""
        elif not part.startswith("\x1b"):
            rows[at] = rows[at][:column].ljust(column) + part
            column += len(part)
    return "\n".join(row.rstrip() for row in rows)
