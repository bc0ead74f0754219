import io
from dataclasses import replace

import pytest
from rich.console import Console

from support.others import disturbed, others
from support.records import a_gpu_record, a_record
from vtune.analysis.repeated_words import in_present_settings
from vtune.domain.experiment import Price
from vtune.domain.numbers import bytes_, many, money, rate, seconds
from vtune.domain.record import Measurement, Projection
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialStatus
from vtune.reporting.inert import harmless
from vtune.reporting.probe_panel import probe_panel


def shown(record, width: int = 80, price: Price | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(probe_panel("study", record, price))
    return console.file.getvalue()


def test_the_verdict_comes_first_and_every_line_fits_80_columns() -> None:
    text = shown(a_record(), price=Price(per_hour=3.67, currency="$"))
    assert text.index("data-bound") < text.index("12.3 samples/s") < text.index("because") < text.index("workers=4")
    assert "$10.60" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_what_was_measured_on_a_busy_machine_foretells_no_run_and_has_no_interval() -> None:
    # As older journals have it, too.
    busy = replace(a_record(), measurement=replace(a_record().measurement, others=others(1.9, 2.0, 412)))
    for record in (disturbed(a_record()), busy):
        text = shown(record, price=Price(per_hour=3.67, currency="$"))
        assert "12.3 samples/s" in text and "busy machine" in text
        assert not [word for word in ("projection", "95 %", "$", "interval", "steady") if word in text]


def test_a_record_without_numbers_still_says_what_happened() -> None:
    failed = replace(a_record(status=TrialStatus.NOT_OBSERVED), measurement=Measurement())
    assert "data-bound" in shown(failed)


@pytest.mark.parametrize("width", [20, 40, 200])
def test_any_width_is_served(width: int) -> None:
    assert max(len(line) for line in shown(a_record(), width).splitlines()) <= width


def test_a_gpu_is_shown_with_its_memory_and_what_it_idled_for() -> None:
    text = shown(a_gpu_record())
    assert "17 % busy" in text and "67.2 GiB of 80 GiB VRAM" in text and "91 W" in text
    assert "2% of the time for the main process" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_each_share_in_which_the_device_idled_is_told_and_what_is_unknown_is_not() -> None:
    record = a_gpu_record()
    lines = [line for line in shown(record).splitlines() if "device idle" in line]
    assert len(lines) == 2 and "2% of the time for the main process" in lines[0]
    assert "1% of the time for the copy to it" in lines[1]
    one = replace(record, measurement=replace(record.measurement, host_fraction=None, transfer_fraction=0.37))
    (line,) = (line for line in shown(one).splitlines() if "device idle" in line)
    assert "37% of the time for the copy to it" in line
    assert "device idle" not in shown(a_record())


def test_by_whose_word_the_vram_peak_is_is_told() -> None:
    assert "memory as told by driver" in " ".join(shown(a_gpu_record(), width=160).split())


def test_numbers_read_as_people_say_them() -> None:
    assert [seconds(s) for s in (0.165, 34, 720, 15120, 2304000, None)] == [
        "165 ms", "34 s", "12 min", "4.2 h", "26.7 d", "unknown",
    ]  # fmt: skip
    assert [bytes_(b) for b in (512, 2**20, 7 * 2**30, None)] == ["512 B", "1 MiB", "7 GiB", "unknown"]
    assert [rate(r) for r in (12.31, 1234.5, 0.0556)] == ["12.3", "1234", "0.0556"]


def test_voxels_are_told_where_they_are_known_and_read_not_counted() -> None:
    record = a_record()
    volumes = replace(record, measurement=replace(record.measurement, voxels_per_s=2_359_296.0))
    assert "2.36 million voxels/s" in shown(volumes) and "voxels" not in shown(record)
    assert [many(value) for value in (12.34, 1500, 999_900, 4.2e9)] == [
        "12.3",
        "1.5 thousand",
        "1000 thousand",
        "4.2 billion",
    ]


def test_money_reads_as_it_was_typed() -> None:
    prices = [Price(per_hour=1, currency=c) for c in ("$", "EUR", "")]
    assert [money(1500, price) for price in prices] == ["$1,500.00", "1,500.00 EUR", "1,500.00"]


def test_without_a_number_of_epochs_the_cost_of_one_is_told() -> None:
    record = a_record()
    one = replace(record, measurement=replace(record.measurement, projected=Projection(epoch_s=3600.0)))
    assert "3.67 an epoch" in shown(one, price=Price(per_hour=3.67))


def test_foreign_text_cannot_move_the_cursor_or_flood_the_screen() -> None:
    assert harmless("a\x1b[31mb\x07\nc") == "a�[31mb� c"
    assert len(harmless("x" * 10_000)) <= 400


@pytest.mark.parametrize("reason", [Repeats.SAME_NUMBERS, Repeats.NOT_SHOWN])
def test_data_that_the_present_settings_repeat_is_told_once_and_first_where_it_is_shown(reason: Repeats) -> None:
    found = Repeated(reason=reason, workers=2, dataset="Patches", where="d.py:8", generator="self.rng", batches=6)
    record = a_record()
    text = shown(replace(record, measurement=replace(record.measurement, repeated=found)), width=200)
    line, numbers = in_present_settings(found), text.index("12.3 samples/s")
    assert text.count(line) == 1 and (text.index(line) < numbers) is found.is_shown
    invalid = replace(record, status=TrialStatus.INVALID, measurement=replace(record.measurement, repeated=found))
    assert line not in shown(invalid, width=200)
