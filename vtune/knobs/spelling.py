"""What was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Of 1: below it, two words have too little in common.
LIKENESS = 0.6


def nearest(word: str, known: Iterable[str], *, likeness: float = LIKENESS) -> str | None:
    """The known word that `word` is likely a misspelling of; case, - and _ do not count."""
    plain: dict[str, str] = {}
    for candidate in known:
        plain.setdefault(_plain(candidate), candidate)
    found = difflib.get_close_matches(_plain(word), plain, n=1, cutoff=likeness)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
