"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from vtune.domain.experiment import Price

# Of an interval around 1, from end to end: half as fast and twice as fast are both in it.
TOO_WIDE = 4.0
TOO_NOISY = "too noisy to tell"


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
            # 1010 MiB must not read 1e+03.
            return f"{value / size:.0f} {unit}" if value >= 999.5 * size else f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def rate(value: float | None) -> str:
    """Plain digits: 1234.5 samples/s must not read 1.23e+03."""
    if value is None:
        return "unknown"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def workers_text(count: int) -> str:
    return f"{count} {'worker' if count == 1 else 'workers'}"


def many(value: float) -> str:
    """2.36 million: nobody reads seven digits."""
    for size, unit in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 999.5 * size else f"{value / size:.0f} {unit}"
    return rate(value)


def money(value: float, price: Price) -> str:
    """$1,500.00 or 1,500.00 EUR, as the user wrote the currency: a sign stands in front, a code behind."""
    amount = f"{value:,.2f}"
    if not price.currency:
        return amount
    return f"{price.currency}{amount}" if len(price.currency) == 1 else f"{amount} {price.currency}"


def round_money(value: float, price: Price) -> str:
    """A projection of hundreds is not good to the cent."""
    whole = abs(value) >= 100
    return money(value, price).replace(f"{value:,.2f}", f"{value:,.0f}") if whole else money(value, price)


def times(value: float, ci95: tuple[float, float] | None) -> str:
    """3.1× ± 0.2: as many digits as the interval lets mean something; near 1, enough to tell on which side it lies."""
    if ci95 is None:
        return f"{value:.2g}× (no interval)" if value < 10 else f"{value:.0f}× (no interval)"
    if tells_nothing(ci95):
        return TOO_NOISY
    half = max(ci95[1] - value, value - ci95[0])
    if half > value:  # too wide for a ±: its lower end would be below nothing
        return f"{value:.2g}× ({_factor(ci95[0])} to {_factor(ci95[1])})"
    digits = 0 if half >= 9.5 else 1 if half >= 0.095 and value >= 2 else 2
    if (ci95[0] > 1 or ci95[1] < 1) and value - half <= 1 <= value + half:
        # Told from 1 by its narrower side: a ± of the wider one would say otherwise.
        return f"{value:.3g}× ({ci95[0]:.3f} to {ci95[1]:.3f})"
    return f"{value:.{digits}f}× ± {half:.{digits}f}"


def times_of(value: float, ci95: tuple[float, float] | None, other: str) -> str:
    """3.1× ± 0.2 of trial 1; too noisy to tell from trial 1."""
    return f"{times(value, ci95)} {'from' if tells_nothing(ci95) else 'of'} {other}"


def tells_nothing(ci95: tuple[float, float] | None) -> bool:
    """Slower or faster, and its ends a factor of more than four apart: the number in the middle misleads."""
    return ci95 is not None and ci95[0] < 1 < ci95[1] and ci95[1] > TOO_WIDE * ci95[0]


def _factor(value: float) -> str:
    """Plain digits: 430, not 4.3e+02; beyond a thousand nobody asks by how much."""
    if value > 1000:
        return "more than 1000"
    if value < 0.001:
        return "less than 0.001"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def trials_text(numbers: Sequence[int], most: int = 12) -> str:
    """trials 1, 2, 5 and 30 more."""
    shown = ", ".join(str(number) for number in numbers[:most])
    rest = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"trial {shown}" if len(numbers) == 1 else f"trials {shown}{rest}"
