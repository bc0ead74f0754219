"""A trial's settings and numbers as every report writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.others_words import MARK
from vtune.analysis.repeated_words import in_present_settings
from vtune.domain.choice import Choice, Ratio
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Price
from vtune.domain.numbers import bytes_, rate, round_money, times
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.inert import harmless

# Of a value; what is longer is no number and no switch.
LONGEST_VALUE = 40


def setting_word(value: object, limit: int = LONGEST_VALUE) -> str:
    return str(value).lower() if isinstance(value, bool) else harmless(str(value), limit)


def settings_text(settings: Mapping[str, Scalar]) -> str:
    """workers=4 batch_size=2, as it is typed."""
    return harmless(" ".join(f"{name}={setting_word(value)}" for name, value in settings.items()))


def settings_cell(record: TrialRecord, names: Sequence[str]) -> str:
    """workers 4, batch_size 2, as it is read."""
    return ", ".join(
        f"{name} {setting_word(record.settings[name])}" for name in names if record.settings.get(name) is not None
    )


def settings_by_kind(records: Sequence[TrialRecord]) -> tuple[dict[str, Scalar], list[str]]:
    """Those that all trials share, and the names of the others."""
    names = list(dict.fromkeys(name for record in records for name in record.settings))
    values = {name: {repr(record.settings.get(name)) for record in records} for name in names}
    alike = {name: records[0].settings[name] for name in names if len(values[name]) == 1}
    known: dict[str, Scalar] = {name: value for name, value in alike.items() if value is not None}
    return known, [name for name in names if name not in alike]


def marked(record: TrialRecord) -> str:
    """Behind each number that was measured while others held the cores."""
    return f" ({MARK})" if record.on_busy_machine else ""


def rate_cell(record: TrialRecord) -> str:
    measured = record.measurement
    if measured.samples_per_s is None:
        return ""
    interval = measured.samples_per_s_ci95
    if interval is None:
        return rate(measured.samples_per_s) + marked(record)
    half = max(interval[1] - measured.samples_per_s, measured.samples_per_s - interval[0])
    return f"{rate(measured.samples_per_s)} ± {half:.2g}{marked(record)}"


def ratio_cell(ratio: Ratio) -> str:
    return times(ratio.value, ratio.ci95)


def ram_cell(record: TrialRecord, choice: Choice) -> str:
    """The peak that was seen, and beside it what passes a limit without having been seen."""
    peak = record.measurement.ram_peak_bytes
    grown = [one for one in choice.over.get(record.trial, ()) if one.memory == "RAM" and one.projected]
    grows = f", would grow to {bytes_(grown[0].needs_bytes)}" if grown else ""
    return "" if peak is None else f"{bytes_(peak)}{grows}"


def vram_sources(record: TrialRecord) -> list[str]:
    """By whose word the peaks are, each once."""
    told = (gpu.vram_from for gpu in record.measurement.gpus if gpu.vram_peak_bytes is not None)
    return list(dict.fromkeys(source for source in told if source))


def cost_text(measured: Measurement, price: Price | None) -> str:
    cost = measured.projected.cost
    return "" if cost is None else round_money(cost, price or Price(per_hour=0.0))


def repeats_lines(record: TrialRecord) -> list[str]:
    """Where its workers make the same data, and its rate holds all the same."""
    found = record.measurement.repeated
    return [] if found is None or record.status is TrialStatus.INVALID else [in_present_settings(found)]
