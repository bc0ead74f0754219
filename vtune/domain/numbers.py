"""Numbers as people read them, and foreign text made harmless."""

from __future__ import annotations

from vtune.domain.experiment import Price


def seconds(value: float | None) -> str:
    """Two significant parts at most: 26.7 d, 4.2 h, 12 min, 34 s, 165 ms."""
    if value is None:
        return "unknown"
    for limit, unit, size in ((172800, "d", 86400), (7200, "h", 3600), (600, "min", 60), (1, "s", 1)):
        if value >= limit:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e3:.3g} ms"


def bytes_(value: float | None) -> str:
    if value is None:
        return "unknown"
    for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def rate(value: float | None) -> str:
    """Plain digits: 1234.5 samples/s must not read 1.23e+03."""
    if value is None:
        return "unknown"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def money(value: float, price: Price) -> str:
    """$1,500.00 or 1,500.00 EUR, as the user wrote the currency: a sign stands in front, a code behind."""
    amount = f"{value:,.2f}"
    if not price.currency:
        return amount
    return f"{price.currency}{amount}" if len(price.currency) == 1 else f"{amount} {price.currency}"


def harmless(text: str, limit: int = 400) -> str:
    """Control characters of foreign text would move the cursor or colour the terminal."""
    plain = "".join(c if c.isprintable() else " " if c in "\t\n\r" else "�" for c in text)
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
