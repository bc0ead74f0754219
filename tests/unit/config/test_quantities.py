from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtune.config.quantities import (
    OutOfRange,
    parse_allow,
    parse_count,
    parse_duration,
    parse_limit,
    parse_price,
    parse_steps,
    parse_study,
    price_text,
)
from vtune.domain.experiment import Price


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("76GiB", 76 * 2**30),
        ("100GB", 10**11),
        ("512MiB", 2**29),
        ("1.5 gib", 3 * 2**29),
        ("2TB", 2 * 10**12),
        ("9B", 9),
    ],
)
def test_a_limit_is_bytes_with_a_unit(text: str, size: int) -> None:
    assert parse_limit(text).bytes == size


def test_a_limit_may_be_a_share() -> None:
    assert parse_limit("95%").fraction == 0.95
    assert parse_limit("100%").resolve(80) == 80


@pytest.mark.parametrize(
    "value", ["76", 76, "76G", "GiB", "", "-1GiB", "0%", "101%", "1e3GB", "nan%", None, True, "0.1B", "1iB"]
)
def test_a_bad_limit_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        parse_limit(value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3m", 180),
        ("90s", 90),
        ("1h30m", 5400),
        ("120", 120),
        (120, 120),
        (0.5, 0.5),
        ("2 min", 120),
        ("1h 2m 3s", 3723),
    ],
)
def test_a_duration_is_seconds(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "  ", "3x", "m", "0", 0, -5, "-3m", True, None, [3], float("nan"), float("inf"), "31d", "999999h"]
)
def test_a_bad_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "price"),
    [
        ("3.67/h", Price(per_hour=3.67)),
        ("$3.67/h", Price(per_hour=3.67, currency="$")),
        ("EUR 3.67/h", Price(per_hour=3.67, currency="EUR")),
        ("3.67 EUR / hour", Price(per_hour=3.67, currency="EUR")),
        ("€2", Price(per_hour=2, currency="€")),
        (4, Price(per_hour=4)),
        (0.25, Price(per_hour=0.25)),
    ],
)
def test_a_price_is_by_hour(value: object, price: Price) -> None:
    assert parse_price(value) == price


@pytest.mark.parametrize(
    "value", ["free", "3.67/day", "-1/h", 0, -1, "0/h", "$3 EUR/h", "3,67/h", True, None, float("inf")]
)
def test_a_bad_price_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        parse_price(value)


@given(st.floats(min_value=1e-6, max_value=1e9), st.sampled_from(["", "$", "EUR", "€"]))
def test_a_written_price_reads_back(per_hour: float, currency: str) -> None:
    price = parse_price(f"{currency}{round(per_hour, 6):.6f}/h") if round(per_hour, 6) > 0 else Price(per_hour=1.0)
    assert parse_price(price_text(price)) == price


def test_allow_is_one_of_three_classes() -> None:
    assert parse_allow("close") == "CLOSE"
    with pytest.raises(ValueError, match='did you mean "different"'):
        parse_allow("diferent")


@given(st.text())
def test_a_study_name_is_safe_as_a_folder(text: str) -> None:
    try:
        name = parse_study(text)
    except ValueError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name)
    assert name not in (".", "..")


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", 1.5, True, None, 0])
def test_a_count_is_at_least_one(value: object) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        parse_count(value)


@pytest.mark.parametrize(
    ("parse", "value", "wrong", "hint"),
    [
        (parse_count, 10**15, "must be at most 1000000000000, got 1000000000000000", "1 to 1000000000000"),
        (parse_count, 10**400, "must be at most 1000000000000, got 1000", "1 to 1000000000000"),
        (parse_steps, 999999999999, "must be at most 100000, got 999999999999", "1 to 100000"),
        (parse_steps, "100001", "must be at most 100000, got 100001", "1 to 100000"),
        (parse_duration, "1000000h", 'must be more than 0 and at most 30 days, got "1000000h"', "30 days"),
        (parse_duration, 10**400, "must be more than 0 and at most 30 days, got 1000", "30 days"),
    ],
)
def test_what_nobody_could_run_is_refused_with_the_range(
    parse: Callable[[object], object], value: object, wrong: str, hint: str
) -> None:
    with pytest.raises(OutOfRange) as caught:
        parse(value)
    assert str(caught.value).startswith(wrong) and len(str(caught.value)) < 200
    assert hint in caught.value.hint
