import io
from dataclasses import replace

from rich.console import Console

from support.records import a_record
from vtune.domain.record import Ceiling, Diagnosis, Measurement, Rung, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.ceiling_panel import ceiling_note, ceiling_panel, ceiling_to_json

MEMORY = {"vram_peak_bytes": 2**30, "ram_peak_bytes": 2**29}
LADDER = (
    Rung(batch_size=2, fits=True, steps=50, samples_per_s=71.0, step_s=0.028, **MEMORY),
    Rung(batch_size=4, fits=True, steps=20, samples_per_s=96.0, step_s=0.042, **MEMORY),
    Rung(batch_size=8, fits=False),
)
FOUND = Ceiling(
    compute_samples_per_s=71.0,
    loader_samples_per_s=12.9,
    ladder=LADDER,
    largest_batch=4,
    ended_because="batch 8 does not fit: \x1b[31mCUDA out of memory",
)


def found(ceiling: Ceiling | None = FOUND, status: TrialStatus = TrialStatus.COMPLETED) -> TrialRecord:
    diagnosis = Diagnosis(bottleneck="unknown", verdict="the ceiling was not found: no room")
    record = a_record(trial=2, status=status)
    return replace(record, measurement=Measurement(ceiling=ceiling), diagnosis=diagnosis, notes=("once",))


def shown(record: TrialRecord, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    panel = ceiling_panel("study", record, a_record())
    assert panel is not None
    console.print(panel)
    return console.file.getvalue()


def test_both_rates_what_is_left_to_win_and_each_size_are_shown() -> None:
    text = shown(found())
    assert "71 samples/s with data for free, at batch 2" in text and "12.9 samples/s with computing for free" in text
    wide = shown(found(), width=200)
    assert "5.8× at most by better data loading, 7.8× with batch 4 as well, which is another training" in wide
    rows = [line.split() for line in text.splitlines()]
    assert ["│", "4", "96", "42", "ms", "1", "GiB", "512", "MiB", "│"] in rows
    assert "8   does not fit" in text and "CUDA out of memory" in text and "\x1b" not in text
    assert "note: once" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_machine_without_a_device_has_no_column_for_it() -> None:
    ladder = tuple(replace(rung, vram_peak_bytes=None) for rung in LADDER)
    assert "VRAM" not in shown(found(replace(FOUND, ladder=ladder)))


def test_a_ceiling_that_is_not_there_is_told_in_a_note_and_not_as_a_panel() -> None:
    failed = found(None, TrialStatus.NOT_OBSERVED)
    assert ceiling_panel("study", failed, a_record()) is None
    assert ceiling_note(failed, a_record()) == "trial 2: the ceiling was not found: no room"
    assert "no loader" in (ceiling_note(None, a_record()) or "")
    assert "did not complete" in (ceiling_note(None, a_record(status=TrialStatus.CRASHED)) or "")
    assert ceiling_note(found(), a_record()) is None


def test_json_holds_the_ceiling_and_the_number_of_its_trial() -> None:
    told = ceiling_to_json(found())
    assert told is not None and told["trial"] == 2 and told["largest_batch"] == 4
    assert told["ladder"][2] == {
        "batch_size": 8, "fits": False, "steps": 0, "samples_per_s": None, "step_s": None, "vram_peak_bytes": None,
        "ram_peak_bytes": None,
    }  # fmt: skip
    assert ceiling_to_json(None) is None
