"""What was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` is likely a misspelling of; case, - and _ do not count."""
    plain: dict[str, str] = {}
    for candidate in known:
        plain.setdefault(_plain(candidate), candidate)
    found = difflib.get_close_matches(_plain(word), plain, n=1)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
