from __future__ import annotations

import json
from dataclasses import replace

from tests.support.records import a_record
from vtune.analysis.fit import excess_of, needs_text
from vtune.analysis.growth_words import growth_advice, growth_lines, passes_limit
from vtune.domain.experiment import Limit, Limits
from vtune.domain.machine_use import RamGrowth
from vtune.domain.record import Measurement, TrialRecord
from vtune.journal.records import record_from_json, record_to_json

MIB, GIB = 2**20, 2**30
LEAK = RamGrowth(kind="leak", who="main", bytes_per_step=MIB, steps=10_000, to_come_bytes=10_000 * MIB)
COPIES = RamGrowth(
    kind="copy_on_write", who="workers", bytes_per_step=MIB, cap_bytes=900 * MIB, steps=10_000, to_come_bytes=800 * MIB
)


def growing(*growth: RamGrowth, projected: int | None = None) -> TrialRecord:
    record = a_record()
    to_come = sum(one.to_come_bytes or 0 for one in growth)
    total = 3 * GIB + to_come if projected is None else projected
    return replace(record, measurement=replace(record.measurement, ram_growth=growth, ram_projected_bytes=total))


def limits(ram: int) -> Limits:
    return Limits(ram=Limit(bytes=ram, text=f"{ram}"))


def test_settings_whose_run_would_pass_the_limit_are_over_it_although_the_trial_was_not() -> None:
    (excess,) = excess_of(growing(LEAK), limits(8 * GIB), None)
    assert excess.projected and excess.needs_bytes > 8 * GIB
    said = needs_text(excess)
    # 5 GiB more at a mebibyte a step; 0.165 s each.
    assert "would grow to 12.8 GiB" in said and "at step 5 180" in said and "min" in said


def test_a_projection_within_the_limit_is_no_excess() -> None:
    assert excess_of(growing(COPIES), limits(4 * GIB), None) == ()


def test_a_peak_over_the_limit_is_told_as_what_was_seen() -> None:
    (excess,) = excess_of(growing(), limits(2 * GIB), None)
    assert not excess.projected and "needs 3 GiB" in needs_text(excess)


def test_copies_pass_a_limit_later_than_their_first_pace_says() -> None:
    passes = passes_limit(growing(COPIES).measurement, 3 * GIB + 600 * MIB)
    assert passes is not None and 700 < passes.step < 10_000
    assert passes_limit(growing(COPIES).measurement, 3 * GIB + 850 * MIB) is None


def test_a_leak_in_a_run_of_unknown_length_still_says_when() -> None:
    endless = replace(LEAK, steps=None, to_come_bytes=None)
    measured = replace(growing(endless).measurement, ram_projected_bytes=None)
    passes = passes_limit(measured, 4 * GIB)
    assert passes is not None and passes.step in range(1024 + 55, 1024 + 65)


def test_each_growth_has_a_line_and_an_advice_of_its_own() -> None:
    measured = growing(LEAK, COPIES).measurement
    lines, advice = growth_lines(measured, 4 * GIB), growth_advice(measured, 4 * GIB)
    assert len(lines) == 3 and "the training's own process" in lines[0] and "2 forked workers" in lines[1]
    assert lines[2].startswith("that passes the RAM limit of 4 GiB")
    assert ".detach()" in advice[0] and "numpy" in advice[1]
    worker = growing(replace(LEAK, who="workers")).measurement
    assert "data set" in growth_advice(worker, 4 * GIB)[0]


def test_growth_that_comes_to_little_of_the_room_is_told_and_calls_for_nothing() -> None:
    little = replace(COPIES, to_come_bytes=28 * MIB)
    measured = growing(little, replace(LEAK, to_come_bytes=82 * MIB)).measurement
    assert len(growth_lines(measured, 23 * GIB)) == 2 and growth_advice(measured, 23 * GIB) == []
    # Where RAM ran out, and where nobody knows how much is to come, it may be the cause.
    assert len(growth_advice(measured, None)) == 2
    assert len(growth_advice(growing(replace(little, to_come_bytes=None)).measurement, 23 * GIB)) == 1
    assert len(growth_advice(measured, 512 * MIB)) == 2


def test_without_growth_nothing_is_said() -> None:
    assert growth_lines(Measurement(ram_peak_bytes=GIB), MIB) == [] == growth_advice(Measurement(), None)


def test_where_an_unseen_leak_would_pass_the_limit_it_is_said_how_small_it_must_be() -> None:
    measured = Measurement(
        ram_peak_bytes=GIB,
        ram_projected_bytes=GIB,
        ram_projected_ci95=(GIB, 9 * GIB),
        ram_unseen_bytes_per_step=80_000.0,
    )
    [line] = growth_lines(measured, 2 * GIB)
    assert "less than 78.1 KiB a step" in line and "holds only less than 9.77 KiB a step" in line
    assert growth_lines(measured, 10 * GIB) == [] == growth_lines(measured, None)


def test_a_record_with_growth_survives_the_journal() -> None:
    record = growing(replace(LEAK, bytes_per_step_ci95=(1.0, 2.0)), COPIES)
    record = replace(record, measurement=replace(record.measurement, ram_projected_ci95=(1, 2)))
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record
