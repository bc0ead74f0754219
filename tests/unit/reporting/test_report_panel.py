import io
from dataclasses import replace

import pytest
from rich.console import Console

from support.studies import a_failure, a_report, a_trial
from vtune.domain.experiment import Price
from vtune.domain.record import Projection
from vtune.reporting.report_panel import report_panel

BASELINE = a_trial(1, 10.0)
FASTER = a_trial(2, 31.0, asked={"workers": 4})


def shown(*records, width: int = 80, **fields) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(report_panel(a_report(*records, **fields)))
    return console.file.getvalue()


def test_the_verdict_comes_first_and_the_table_fits_80_columns() -> None:
    faster = a_trial(2, 31.0, asked={"workers": 4}, measured={"projected": Projection(run_s=4129.0, cost=1234.5)})
    text = shown(BASELINE, faster, a_failure(3), price=Price(per_hour=3.67, currency="$"))
    assert text.index("adopt workers=4") < text.index("× ") and "--set workers=4" in text and "exit code 1" in text
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if " best " in line)
    assert "3.1× ± 0.1" in row and "31" in row and "68.8 min" in row and "$1,234" in row


@pytest.mark.parametrize("width", [20, 40, 200])
def test_any_width_is_served(width: int) -> None:
    assert max(map(len, shown(BASELINE, FASTER, width=width).splitlines())) <= width


def test_of_many_trials_those_that_matter_are_shown() -> None:
    others = [a_trial(n, 10 + n / 100, asked={"workers": n}) for n in range(5, 102)]
    text = shown(BASELINE, *others, FASTER)
    assert " best " in text and "baseline" in text and "87 more trials are in report.md" in text


def test_nothing_yet_and_failures_only_are_whole_reports() -> None:
    assert "no trial was recorded yet" in shown()
    assert "the trial did not complete: crashed" in shown(a_failure(1))


@pytest.mark.parametrize("text", ["\x1b[31mred", "[bold]markup[/bold]", "x" * 10_000, "a\nb\rc", "\u202egnp", "[/]"])
def test_hostile_text_moves_no_cursor(text: str) -> None:
    record = replace(BASELINE, notes=(text,), settings={"workers": text, text: 1})
    plain = shown(record, FASTER, a_failure(3, detail=text, words=[text]), width=100)
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert max(map(len, plain.splitlines())) <= 100 and "x" * 500 not in plain
