"""trials.csv: one row a trial, every number that somebody may want to sort by. The columns are documented in
docs/report.md, and a test holds the two together."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vtune.analysis.search.fronts import fronts
from vtune.domain.choice import Ratio
from vtune.domain.machine_use import GpuUse
from vtune.domain.record import Measurement, TrialRecord
from vtune.knobs.registry import KNOB_NAMES
from vtune.reporting.inert import in_csv
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import vram_sources

# A sentence and its evidence; what is longer is cut with a mark.
LONGEST_TEXT = 1000
# For settings that are no knobs of this vtune: another one's, or a stranger's.
OTHER_SETTING = "setting."


@dataclass(frozen=True, slots=True)
class _Row:
    report: StudyReport
    record: TrialRecord
    lost: str | None
    # Memories on whose front it is, joined by a blank.
    fronts: str

    @property
    def measured(self) -> Measurement:
        return self.record.measurement

    @property
    def ratio(self) -> Ratio | None:
        baseline = self.report.choice.baseline
        if baseline is not None and self.record.trial == baseline.trial:
            return Ratio(value=1.0, ci95=(1.0, 1.0))
        return self.report.choice.ratios.get(self.record.trial)


Column = tuple[str, Callable[[_Row], object]]


def csv_table(report: StudyReport) -> str:
    lost = {one.trial: one.why for one in report.choice.lost}
    others = sorted({name for record in report.records for name in record.settings} - set(KNOB_NAMES))
    columns = [*COLUMNS, *(_setting(name, OTHER_SETTING + name) for name in others)]
    found = fronts(report.compared, report.choice)
    text = io.StringIO()
    writer = csv.writer(text)  # lines end with CR LF, as RFC 4180 has it
    writer.writerow([in_csv(name, 100) for name, _ in columns])
    for record in report.records:
        on = " ".join(one.memory for one in found if record.trial in one.trials)
        row = _Row(report, record, lost.get(record.trial), on)
        writer.writerow([_cell(value(row)) for _, value in columns])
    return text.getvalue()


def _cell(value: object) -> str:
    """Empty is unknown."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else in_csv(str(value), LONGEST_TEXT)


def _setting(name: str, title: str) -> Column:
    return title, lambda row: row.record.settings.get(name)


def _field(name: str) -> Column:
    return name, lambda row: getattr(row.measured, name)


def _step(name: str) -> Column:
    return f"step_{name}_s", lambda row: getattr(row.measured.step_time_s, name, None)


def _gpus(values: Callable[[GpuUse], float | None], pick: Callable[[list[float]], float]) -> Callable[[_Row], object]:
    def over_devices(row: _Row) -> object:
        known = [value for gpu in row.measured.gpus if (value := values(gpu)) is not None]
        return pick(known) if known else None

    return over_devices


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _is(record: TrialRecord, other: TrialRecord | None) -> bool:
    return other is not None and record.trial == other.trial


def _joined(lines: Iterable[str]) -> str | None:
    return "; ".join(lines) or None


COLUMNS: tuple[Column, ...] = (
    ("trial", lambda row: row.record.trial),
    ("origin", lambda row: row.record.origin),
    ("status", lambda row: row.record.status.value),
    ("best", lambda row: _is(row.record, row.report.choice.best)),
    ("baseline", lambda row: _is(row.record, row.report.choice.baseline)),
    *(_setting(name, name) for name in KNOB_NAMES),
    ("samples_per_s", lambda row: row.measured.samples_per_s),
    ("samples_per_s_low", lambda row: (row.measured.samples_per_s_ci95 or (None, None))[0]),
    ("samples_per_s_high", lambda row: (row.measured.samples_per_s_ci95 or (None, None))[1]),
    _field("samples_per_s_whole_run"),
    _field("voxels_per_s"),
    ("speedup", lambda row: row.ratio and row.ratio.value),
    ("speedup_low", lambda row: row.ratio and row.ratio.ci95 and row.ratio.ci95[0]),
    ("speedup_high", lambda row: row.ratio and row.ratio.ci95 and row.ratio.ci95[1]),
    ("predicted_samples_per_s", lambda row: row.record.predicted and row.record.predicted.samples_per_s),
    ("predicted_low", lambda row: row.record.predicted and row.record.predicted.samples_per_s_ci95[0]),
    ("predicted_high", lambda row: row.record.predicted and row.record.predicted.samples_per_s_ci95[1]),
    ("on_front", lambda row: row.fronts),
    _field("steps_measured"),
    _field("steady"),
    _field("rate_from"),
    ("trial_s", lambda row: row.record.seconds),
    ("epoch_s", lambda row: row.measured.projected.epoch_s),
    ("run_s", lambda row: row.measured.projected.run_s),
    ("cost", lambda row: row.measured.projected.cost),
    ("currency", lambda row: row.report.price and (row.report.price.currency or None)),
    ("bottleneck", lambda row: row.record.diagnosis.bottleneck),
    ("headroom", lambda row: row.record.diagnosis.headroom),
    _field("data_wait_fraction"),
    _field("other_loaders_wait_fraction"),
    _field("transfer_fraction"),
    _field("host_fraction"),
    _field("outside_fraction"),
    _field("compute_samples_per_s"),
    _field("loader_samples_per_s"),
    _step("p10"),
    _step("p50"),
    _step("p90"),
    _step("p99"),
    _step("mean"),
    _field("startup_s"),
    _field("first_batch_s"),
    _field("epoch_restart_s"),
    _field("ram_peak_bytes"),
    _field("ram_projected_bytes"),
    _field("shm_peak_bytes"),
    _field("shm_needed_bytes"),
    _field("pinned_bytes"),
    _field("disk_bytes_per_epoch"),
    ("worker_rss_peak_bytes", lambda row: max(row.measured.workers_rss_bytes, default=None)),
    _field("page_cache_bytes"),
    _field("cache"),
    _field("cold_fraction"),
    ("gpus", lambda row: len(row.measured.gpus)),
    ("gpu_util_percent", _gpus(lambda gpu: gpu.util_mean, _mean)),
    _field("vram_peak_bytes"),
    ("vram_from", lambda row: _joined(vram_sources(row.record))),
    _field("vram_allocated_peak_bytes"),
    _field("vram_reserved_peak_bytes"),
    _field("vram_validation_peak_bytes"),
    _field("alloc_retries"),
    ("gpu_power_w", _gpus(lambda gpu: gpu.power_w_mean, sum)),
    ("gpu_energy_j", _gpus(lambda gpu: gpu.energy_j, sum)),
    ("gpu_temperature_c", _gpus(lambda gpu: gpu.temperature_c_max, max)),
    _field("device_step_s"),
    _field("device_gap_s"),
    _field("skipped_steps"),
    _field("tree_cores"),
    _field("others_cores"),
    ("busy_machine", lambda row: row.record.on_busy_machine),
    _field("ranks"),
    _field("effective_batch"),
    _field("samples_per_epoch"),
    _field("epoch_bound_by"),
    ("repeats", lambda row: row.measured.repeated and row.measured.repeated.reason.value),
    ("reason", lambda row: row.record.reason),
    ("detail", lambda row: row.record.detail),
    ("verdict", lambda row: row.record.diagnosis.verdict),
    ("lost_because", lambda row: row.lost),
    ("notes", lambda row: _joined(row.record.notes)),
)
