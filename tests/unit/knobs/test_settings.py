from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtune.domain.effects import Scalar
from vtune.errors import UsageError
from vtune.knobs.registry import KNOBS, knob_named
from vtune.knobs.settings import check_settings, check_value, parse_assignment, parse_setting


def test_knobs_are_named_once_and_say_what_they_change() -> None:
    names = [knob.name for knob in KNOBS]
    assert names == [
        "workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order", "batch_size",
        "accumulate_steps", "precision", "compile", "gradient_checkpointing", "channels_last", "threads", "filters",
        "patch_size", "surface_distance_interval", "deep_supervision",
    ]  # fmt: skip
    close = {knob.name for knob in KNOBS if knob.numerics == "CLOSE"}
    assert close == {"in_order", "compile", "gradient_checkpointing", "channels_last", "threads"}
    same = {knob.name for knob in KNOBS if knob.numerics == "SAME"}
    assert same == {"workers", "prefetch_factor", "persistent_workers", "pin_memory"}
    assert all("\n" not in knob.doc + knob.numerics_reason for knob in KNOBS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workers=2", ("workers", 2)),
        (" workers = 0", ("workers", 0)),
        ("prefetch_factor=4", ("prefetch_factor", 4)),
        ("persistent_workers=true", ("persistent_workers", True)),
        ("pin_memory=No", ("pin_memory", False)),
        ("batch_size=16", ("batch_size", 16)),
        ("precision=bf16", ("precision", "bf16")),
        ("precision=32-true", ("precision", "fp32")),
        ("precision=16", ("precision", "fp16")),
        ("patch_size=96", ("patch_size", 96)),
        ("compile=on", ("compile", True)),
    ],
)
def test_a_setting_gets_the_type_of_its_knob(text: str, expected: tuple[str, Scalar]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_worker=2", 'unknown knob "num_worker"; did you mean "workers"?'),
        ("prefetch-factr=2", 'unknown knob "prefetch-factr"; did you mean "prefetch_factor"?'),
        ("zzz=2", 'unknown knob "zzz"'),
        ("workers", '"workers" is not knob=value'),
        ("=3", '"=3" is not knob=value'),
        ("workers=-1", "workers must be at least 0, got -1"),
        ("workers=2.5", 'workers must be a whole number, got "2.5"'),
        ("workers=", 'workers must be a whole number, got ""'),
        ("workers=100000", "workers must be at most 1024, got 100000"),
        ("prefetch_factor=0", "prefetch_factor must be at least 1, got 0"),
        ("batch_size=0", "batch_size must be at least 1, got 0"),
        ("batch_size=999999999999", "batch_size must be at most 10000000, got 999999999999"),
        ("workers=99999999999999999999", "workers must be at most 1024, got 99999999999999999999"),
        ("batch_size=x999999", 'batch_size must be a whole number, got "x999999"'),
        ("accumulate_steps=999999", "accumulate_steps must be at most 65536, got 999999"),
        ("pin_memory=maybe", 'pin_memory must be true or false, got "maybe"'),
        ("precision=bf61", 'precision must be one of fp32, bf16, fp16, got "bf61"; did you mean "bf16"?'),
        ("precision=", 'precision must be one of fp32, bf16, fp16, got ""'),
        ("threads=0", "threads must be at least 1, got 0"),
        ("patch_size=[96, 96]", 'patch_size must be a whole number, got "[96, 96]"'),
        ("use_checkpoint=1", 'unknown knob "use_checkpoint"; did you mean "gradient_checkpointing"?'),
    ],
)
def test_a_bad_setting_is_refused_with_its_value(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_assignment(text)
    assert caught.value.message == said


def test_an_unknown_knob_comes_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        knob_named("zzz")
    assert caught.value.hint is not None
    assert "accumulate_steps" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("workers", True),
        ("workers", "2"),
        ("pin_memory", 1),
        ("batch_size", 2.0),
        ("precision", True),
        ("precision", 32.0),
        ("precision", ["bf16"]),
        ("filters", [32, 64]),
    ],
)
def test_a_typed_value_must_have_the_right_type(name: str, value: object) -> None:
    with pytest.raises(UsageError):
        check_value(knob_named(name), value)


@pytest.mark.parametrize(
    ("settings", "workers_now", "fine"),
    [
        ({"workers": 0, "prefetch_factor": 2}, None, False),
        ({"workers": 0, "persistent_workers": True}, 4, False),
        ({"persistent_workers": True}, 0, False),
        ({"workers": 0, "persistent_workers": False}, None, True),
        ({"workers": 0}, 4, True),
        ({"workers": 0, "in_order": False}, None, False),
        ({"workers": 0, "in_order": True}, None, True),
        ({"in_order": False}, 2, True),
        ({"prefetch_factor": 2}, None, True),
        ({"workers": 1, "prefetch_factor": 2}, 0, True),
    ],
)
def test_prefetching_and_persistence_need_workers(settings: dict[str, Scalar], workers_now: Scalar, fine: bool) -> None:
    if fine:
        check_settings(settings, workers_now=workers_now)
    else:
        with pytest.raises(UsageError, match="at least one worker"):
            check_settings(settings, workers_now=workers_now)


@given(st.text())
def test_any_text_is_a_value_or_a_usage_error(text: str) -> None:
    for knob in KNOBS:
        try:
            value = parse_setting(knob, text)
        except UsageError:
            continue
        assert isinstance(value, bool) == (knob.kind == "bool")
        assert knob.kind != "text" or value in knob.words
