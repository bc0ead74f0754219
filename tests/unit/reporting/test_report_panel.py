import io
from dataclasses import replace

import pytest
from rich.console import Console

from support.records import a_gpu_record
from support.studies import a_failure, a_report, a_trial
from vtune.analysis.judge import NOT_VALIDATED
from vtune.domain.experiment import Limit, Limits, Price
from vtune.domain.record import Projection
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import TrialStatus
from vtune.reporting.failures import last_words
from vtune.reporting.report_panel import report_panel, to_paste

BASELINE = a_trial(1, 10.0)
FASTER = a_trial(2, 31.0, asked={"workers": 4})


def shown(*records, width: int = 80, **fields) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(report_panel(a_report(*records, **fields)))
    return console.file.getvalue()


def test_the_verdict_comes_first_and_the_table_fits_80_columns() -> None:
    faster = a_trial(2, 31.0, asked={"workers": 4}, measured={"projected": Projection(run_s=4129.0, cost=1234.5)})
    text = shown(BASELINE, faster, a_failure(3), price=Price(per_hour=3.67, currency="$"))
    assert text.index("adopt workers=4") < text.index("× ") and "exit code 1" in text
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if " best " in line)
    assert "3.1× ± 0.1" in row and "30.4" in row and "68.8 min" in row and "$1,234" in row


MANY = {"prefetch_factor": 4, "persistent_workers": True, "pin_memory": True, "worker_start": "spawn"}
BUSY = {"projected": Projection(run_s=41290.0, cost=1234.5), "ram_peak_bytes": 11 * 2**30, "vram_peak_bytes": 2**36}


@pytest.mark.parametrize("width", [40, 80])
def test_where_columns_have_no_room_what_an_option_asked_for_stays_and_the_rest_is_named(width: int) -> None:
    trials = a_trial(1, 1000.0, measured=BUSY), a_trial(2, 3100.0, asked={"workers": 4, **MANY}, measured=BUSY)
    text = shown(*trials, width=width, price=Price(per_hour=3.67, currency="$"))
    assert text.count("$1,234") == 2 and "…" not in text
    assert "whole run, VRAM" in text and " in report.md" in " ".join(text.split())
    assert " RAM " in shown(*trials, width=60, limits=Limits(ram=Limit(bytes=2**40, text="1TiB")))
    assert "whole run, VRAM, RAM" in shown(*trials, width=60)
    wide = shown(*trials, width=160)
    assert "report.md" not in wide and "11 GiB" in wide and "64 GiB" in wide and "11.5 h" in wide


def test_a_setting_has_one_column_however_narrow_the_terminal() -> None:
    others = [a_trial(n, 10.0 + n, asked={"workers": n, "worker_start": "spawn"}) for n in (2, 3)]
    for width in (40, 80):
        heads = [line for line in shown(BASELINE, *others, width=width).splitlines() if "outcome" in line]
        assert len(heads) == 1 and heads[0].count("work") <= 1 + (width == 80) and "…" not in heads[0]


def test_a_ratio_that_tells_nothing_is_not_shown_as_a_number() -> None:
    repeats = [a_trial(n, rate, asked={"workers": 4}) for n, rate in ((2, 31.0), (3, 100.0), (4, 1.0))]
    text = shown(BASELINE, *repeats, width=100)
    assert text.count("too noisy to tell") >= 3 and "e+0" not in text
    assert "more than 1000" not in text and "cannot be told:" not in text


def test_one_that_is_faster_than_the_baseline_and_not_the_best_is_behind_the_best() -> None:
    text = shown(BASELINE, FASTER, a_trial(3, 21.0, asked={"workers": 2}))
    assert "behind the best" in next(line for line in text.splitlines() if "2.1×" in line) and "slower" not in text


@pytest.mark.parametrize("disturbed", [1, 2, 3])
def test_neighbours_that_a_comparison_was_judged_by_are_among_its_first_reasons(disturbed: int) -> None:
    rates = {1: (10.0, {}), 2: (31.0, {"workers": 4}), 3: (21.0, {"workers": 2})}
    trials = [
        a_trial(n, rate, asked=asked, measured={"others_cores": 1.5} if n == disturbed else {})
        for n, (rate, asked) in rates.items()
    ]
    text = " ".join(shown(*trials, width=160).replace("│", " ").split())
    assert f"other programs kept 1.5 cores busy during trial {disturbed}:" in text.partition("note")[0]
    assert text.count("other programs") == 1


def test_what_is_to_be_pasted_stands_outside_of_the_frame_on_lines_of_its_own() -> None:
    report = a_report(BASELINE, FASTER)
    lines = [text.plain for text in to_paste(report)]
    assert "vtune probe --study demo --set workers=4" in lines and "DataLoader(..., num_workers=4)" in lines
    assert to_paste(a_report(BASELINE)) == []


@pytest.mark.parametrize("width", [20, 40, 200])
def test_any_width_is_served(width: int) -> None:
    assert max(map(len, shown(BASELINE, FASTER, width=width).splitlines())) <= width


def test_of_many_trials_those_that_matter_are_shown() -> None:
    others = [a_trial(n, 10 + n / 100, asked={"workers": n}) for n in range(5, 102)]
    text = shown(BASELINE, *others, FASTER)
    assert " best " in text and "baseline" in text and "87 more trials are in report.md" in text
    assert "1 more trial is in report.md" in shown(BASELINE, *others[:11], FASTER)


def test_nothing_yet_and_failures_only_are_whole_reports() -> None:
    assert "no trial was recorded yet" in shown()
    assert "the trial did not complete: crashed" in shown(a_failure(1))


@pytest.mark.parametrize("text", ["\x1b[31mred", "[bold]markup[/bold]", "x" * 10_000, "a\nb\rc", "\u202egnp", "[/]"])
def test_hostile_text_moves_no_cursor(text: str) -> None:
    record = replace(BASELINE, notes=(text,), settings={"workers": text, text: 1})
    plain = shown(record, FASTER, a_failure(3, detail=text, words=[text]), width=100)
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert max(map(len, plain.splitlines())) <= 100 and "x" * 500 not in plain


def test_what_holds_for_most_trials_is_not_cut_from_a_long_list_of_notes() -> None:
    trials = [
        replace(a_gpu_record(trial=n), asked={"workers": n}, notes=(*(f"odd {n} {m}" for m in range(9)), NOT_VALIDATED))
        for n in range(1, 4)
    ]
    text = " ".join(shown(*trials, width=160).split())
    assert NOT_VALIDATED in text and "more in report.md" in text


def test_what_a_training_said_last_is_no_word_on_repeated_data() -> None:
    words = ["UserWarning: This DataLoader will create 4 worker processes in total."]
    crashed = a_failure(2, words=words)
    found = Repeated(reason=Repeats.SAME_NUMBERS, workers=2, dataset="Crops", generator="self.rng")
    invalid = a_trial(3, 20.0, measured={"repeated": found}, status=TrialStatus.INVALID, evidence=crashed.evidence)
    assert last_words(crashed) == tuple(words) and last_words(invalid) == ()
    assert "UserWarning" not in shown(BASELINE, invalid)
