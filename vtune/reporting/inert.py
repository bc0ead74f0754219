"""Foreign text in terminals and in documents that others open: a journal may hold whatever a training printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vtune.domain.secrets import masked

# As character references: by the standard, none of them can be markup, and every renderer knows them.
_MARKUP = re.compile(r"[&<>|`*\[\]\\~$@]|(?<![^\W_])_|_(?![^\W_])")
# Renderers turn bare addresses into links.
_ADDRESS = re.compile(r"(?<=:)//|(?<=www)\.", re.IGNORECASE)
# What would begin a list, a heading or a rule where it stands first.
_OPENING = re.compile(r"[#+=-]|\d+[.)](?=\s|$)")
# A spreadsheet evaluates what begins so, also behind blanks and quotes; the wide ones are the same to some.
_FORMULA = re.compile("(?P<before>^[\\s'\"]*|;[\\s'\"]*)(?P<sign>[=+@\\-\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def harmless(text: str, limit: int = 400) -> str:
    """Control characters of foreign text would move the cursor or colour the terminal; secrets are for nobody."""
    text = masked(text)
    plain = "".join(c if c.isprintable() else " " if c in "\t\n\r" else "�" for c in text)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def in_markdown(text: str, limit: int = 400) -> str:
    """One line that reads as it was written and is nothing but text."""
    plain = _MARKUP.sub(_reference, harmless(text, limit).strip())
    plain = _ADDRESS.sub(lambda found: "".join(f"&#{ord(c)};" for c in found.group()), plain)
    opening = _OPENING.match(plain)
    if opening is None:
        return plain
    mark = opening.end() - 1
    return f"{plain[:mark]}&#{ord(plain[mark])};{plain[mark + 1 :]}"


def fenced(lines: Sequence[str], limit: int = 400) -> str:
    """As it was printed, in a fence that nothing in it can close."""
    plain = [harmless(line, limit) for line in lines]
    longest = max((len(run) for line in plain for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *plain, fence])


def in_csv(text: str, limit: int = 400) -> str:
    """A number that was typed stays one; what a spreadsheet would run gets an apostrophe in front, as in its own cells.
    Also within the text: with another separator than ours, a cell may begin there."""
    plain = harmless(text, limit)
    return plain if _NUMBER.fullmatch(plain) else _FORMULA.sub(r"\g<before>'\g<sign>", plain)


def _reference(found: re.Match[str]) -> str:
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    # A price is also read as it stands in the file; escaped, a second one makes no mathematics of it.
    if found.group() == "$" and found.string[found.end() : found.end() + 1].isdigit():
        return "\\$"
    return named.get(found.group(), f"&#{ord(found.group())};")
