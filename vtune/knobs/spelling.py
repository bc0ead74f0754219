"""What was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Of 1: below it, two words have too little in common.
LIKENESS = 0.6
# To compare two words takes some 10 µs, and a config may hold thousands of keys, each of them wrong. Among more than so
# many, a few of the same beginning and nearly the same length are compared.
MOST_COMPARED, FEW = 100, 10


def nearest(word: str, known: Iterable[str], *, likeness: float = LIKENESS) -> str | None:
    """The known word that `word` is likely a misspelling of; case, - and _ do not count."""
    plain: dict[str, str] = {}
    for candidate in known:
        plain.setdefault(_plain(candidate), candidate)
    meant, compared = _plain(word), list(plain)
    if len(compared) > MOST_COMPARED:
        alike = [one for one in compared if one[:1] == meant[:1] and abs(len(one) - len(meant)) <= 2]
        compared = alike[:FEW]
    found = difflib.get_close_matches(meant, compared, n=1, cutoff=likeness)
    return plain[found[0]] if found else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
