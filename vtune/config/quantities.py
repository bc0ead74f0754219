"""Amounts as people type them. Each function raises ValueError with words that fit behind an option's name."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import get_args

from vtune.domain.experiment import Limit, Numerics, Price, is_study_name
from vtune.domain.search import Sampler
from vtune.knobs.settings import shown
from vtune.knobs.spelling import nearest

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_LIMIT = re.compile(rf"(?P<number>-?{_NUMBER})\s*(?P<unit>%|[kmgt]?i?b)", re.IGNORECASE)
_DURATION = re.compile(
    rf"(?:(?P<hours>{_NUMBER})h)?(?:(?P<minutes>{_NUMBER})m(?:in)?)?(?:(?P<seconds>{_NUMBER})s?)?", re.IGNORECASE
)
_PRICE = re.compile(
    rf"(?P<before>[^\W\d_]{{1,8}}|[$€£¥₹])?\s*(?P<number>{_NUMBER})\s*(?P<after>[^\W\d_]{{2,8}}|[$€£¥₹])?"
    r"(?P<by>\s*/\s*(?:h|hr|hour))?"
)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
# A trial of more than a month is a typing error; it also keeps every sum of times within the clock's range.
LONGEST_S = 30 * 24 * 3600.0
# A trial is a short window of the training: 300 steps are the most that vtune asks for by itself.
MOST_STEPS = 100_000
# Samples, iterations: above it a projection is nobody's training, and sums leave what a float holds.
MOST = 10**12
# Of one search; a journal of so many is still read in seconds.
MOST_TRIALS = 10_000


class OutOfRange(ValueError):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def parse_limit(value: object) -> Limit:
    """`76GiB`, `100GB`, `512MiB`, `95%`."""
    match = _LIMIT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be like 76GiB, 100GB, 512MiB or 95%, got {shown(value)}")
    text = match.group(0)
    number, unit = Decimal(match["number"]), match["unit"].lower()
    if number <= 0:
        raise ValueError(f"must be more than 0, got {shown(text)}")
    if unit == "%":
        if number > 100:
            raise ValueError(f"must be at most 100%, got {shown(text)}")
        return Limit(fraction=float(number / 100), text=text)
    if unit == "ib":
        raise ValueError(f"must be like 76GiB, 100GB, 512MiB or 95%, got {shown(text)}")
    step = 1024 if "i" in unit else 1000
    amount = int(number * step ** _POWERS.get(unit[0], 0))
    if amount < 1:
        raise ValueError(f"must be at least one byte, got {shown(text)}")
    return Limit(bytes=amount, text=text)


def parse_duration(value: object) -> float:
    """`3m`, `90s`, `1h30m`; a bare number is seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(min(value, 2 * LONGEST_S))  # a whole number of YAML has no end
    else:
        match = _DURATION.fullmatch(value.replace(" ", "")) if isinstance(value, str) and value.strip() else None
        if match is None:
            raise ValueError(f"must be like 3m, 90s or 1h30m, got {shown(value)}")
        hours, minutes, rest = (float(match[name] or 0) for name in ("hours", "minutes", "seconds"))
        seconds = 3600 * hours + 60 * minutes + rest
    if not 0 < seconds <= LONGEST_S:
        hint = "a trial takes minutes, such as 3m; from 1s to 30 days (720h) are taken"
        raise OutOfRange(f"must be more than 0 and at most 30 days, got {shown(value)}", hint)
    return seconds


def parse_budget(value: object) -> float:
    """`30m`; nobody means a budget in seconds without saying so."""
    if isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()):
        raise ValueError(f"must have a unit, as {value.strip()}s or {value.strip()}m, got {shown(value)}")
    return parse_duration(value)


def parse_trials(value: object) -> int:
    found = parse_count(value)
    if found > MOST_TRIALS:
        raise ValueError(f"must be at most {MOST_TRIALS}, got {found}")
    return found


def parse_sampler(value: object) -> Sampler:
    samplers: tuple[Sampler, ...] = get_args(Sampler)
    for known in samplers:
        if value == known:
            return known
    meant = nearest(value, samplers) if isinstance(value, str) else None
    named = f"{', '.join(samplers[:-1])} or {samplers[-1]}"
    raise ValueError(f"must be {named}, got {shown(value)}" + (f'; did you mean "{meant}"?' if meant else ""))


def parse_price(value: object) -> Price:
    """`3.67/h`, `$3.67/h`, `EUR 3.67/h`; a bare number is by hour."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _plain_number(value)
    match = _PRICE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or (match["before"] and match["after"]):
        raise ValueError(f"must be an amount by hour like 3.67/h or EUR 3.67/h, got {shown(value)}")
    if float(match["number"]) <= 0:
        raise ValueError(f"must be more than 0, got {shown(value)}")
    return Price(per_hour=float(match["number"]), currency=match["before"] or match["after"] or "")


def parse_allow(value: object) -> Numerics:
    classes: tuple[Numerics, ...] = get_args(Numerics)
    for known in classes:
        if isinstance(value, str) and value.strip().upper() == known:
            return known
    meant = nearest(value, [known.lower() for known in classes]) if isinstance(value, str) else None
    raise ValueError(
        f"must be same, close or different, got {shown(value)}" + (f'; did you mean "{meant}"?' if meant else "")
    )


def parse_study(value: object) -> str:
    if isinstance(value, str) and value[:1] in (".", "-"):
        raise ValueError(
            f"must not begin with {value[0]}, got {shown(value)}: such folders are hidden, or look like options"
        )
    if isinstance(value, str) and is_study_name(value):
        return value
    raise ValueError(f"must be a name of 1 to 64 letters, digits, '.', '_' or '-', got {shown(value)}")


def parse_share(value: object) -> float:
    """`3%`: more than nothing, less than all."""
    match = re.fullmatch(rf"({_NUMBER})\s*%", value.strip()) if isinstance(value, str) else None
    if match is None or not 0 < float(match[1]) < 100:
        raise ValueError(f"must be a share like 3%, got {shown(value)}")
    return float(match[1]) / 100


def parse_steps(value: object) -> int:
    """Measured steps of a trial."""
    return parse_count(value, most=MOST_STEPS)


def parse_count(value: object, *, most: int = MOST) -> int:
    """A whole number of at least 1, typed on a command line or in a file."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,40}", value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"must be a whole number, got {shown(value)}")
    if value < 1:
        raise ValueError(f"must be at least 1, got {value}")
    if value > most:
        raise OutOfRange(f"must be at most {most}, got {shown(value)}", f"whole numbers from 1 to {most} are taken")
    return value


def price_text(price: Price) -> str:
    return f"{price.currency} {_plain_number(price.per_hour)}/h".strip()


def duration_text(seconds: float) -> int | float:
    return int(seconds) if seconds == int(seconds) else seconds


def _plain_number(value: float) -> str:
    """Every digit and no exponent."""
    return format(Decimal(repr(value)), "f")
